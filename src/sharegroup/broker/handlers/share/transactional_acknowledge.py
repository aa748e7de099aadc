"""ShareAcknowledge in a transaction: the acknowledgements take effect when it commits (KIP-1289).

The request names the open transaction of a producer, and a member that holds the records. It does
not belong to the member's session. The client must wait for the answer before it ends the
transaction.
"""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.broker.delivery.share_acknowledging import AS_ACK_BATCH, Outcome
from sharegroup.broker.delivery.share_requests import checked_ids
from sharegroup.broker.delivery.transactional_acks import Wanted
from sharegroup.broker.internal_topics import SHARE_GROUP_STATE
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey, TopicIdPartition, TopicPartition
from sharegroup.model.pending_acks import TransactionMark
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION, IdAndEpoch
from sharegroup.wire.messages.share_acknowledge import ShareAcknowledgeRequest

_NO_EPOCH: Final = -1


async def acknowledge_in_transaction(
    parts: BrokerParts, request: ShareAcknowledgeRequest, context: RequestContext
) -> Outcome:
    """What became of each partition. The transaction can only be aborted if one has an error.

    Raises:
        KafkaError: the request, or the producer, is refused; nothing was acknowledged.
    """
    transactional_id = request.transactional_id
    context.access.require(
        Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
    )
    group_id, member_id = checked_ids(request.group_id, request.member_id, context.access)
    if request.producer_id < 0:
        raise errors.InvalidProducerIdMapping
    if request.producer_epoch <= _NO_EPOCH:
        raise errors.InvalidProducerEpoch
    if request.is_renew_ack:
        raise errors.InvalidRequest("Locks are not renewed in a transaction.")
    producer = IdAndEpoch(request.producer_id, request.producer_epoch)
    outcome: Outcome = {}
    wanted = _wanted(parts, request, group_id, context, outcome)

    def place(key: SharePartitionKey) -> TopicPartition:
        return TopicPartition(SHARE_GROUP_STATE, parts.state.partition_of(key))

    if wanted:
        await parts.transactions.add_partitions(
            transactional_id, producer, {place(key) for key in wanted}, EPOCH_PER_TRANSACTION
        )
        held = await parts.transactional_acks.hold(
            TransactionMark(*producer),
            member_id,
            wanted,
            lambda key: parts.transactions.check_write(transactional_id, producer, place(key)),
        )
        for key, error in held.items():
            outcome[TopicIdPartition(key.topic_id, key.partition)] = error
    return outcome


def _wanted(
    parts: BrokerParts,
    request: ShareAcknowledgeRequest,
    group_id: str,
    context: RequestContext,
    outcome: Outcome,
) -> dict[SharePartitionKey, Wanted]:
    """The acknowledgements of each share partition; refused topics go to ``outcome``."""
    wanted: dict[SharePartitionKey, Wanted] = {}
    for topic in request.topics:
        name = parts.topics.name_of(topic.topic_id)
        for partition in topic.partitions:
            key = TopicIdPartition(topic.topic_id, partition.partition_index)
            try:
                if name is None:
                    raise errors.UnknownTopicId
                context.access.require_topic(Operation.READ, name)
            except errors.KafkaError as error:
                outcome[key] = error
                continue
            if not partition.acknowledgement_batches:
                outcome[key] = None
                continue
            share_partition = SharePartitionKey(group_id, *key)
            if share_partition in wanted:
                raise errors.InvalidRequest(f"Partition {key.partition} of {name} is there twice.")
            batches = [AS_ACK_BATCH(one) for one in partition.acknowledgement_batches]
            wanted[share_partition] = Wanted(batches, partition.reasons)
    return wanted
