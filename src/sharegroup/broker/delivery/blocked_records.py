"""Applies an operator's decisions on blocked records (``share.ordering.on.failure=block``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model.ack_type import AckType
from sharegroup.model.errors import InvalidRequest, UnknownTopicId
from sharegroup.model.ids import SharePartitionKey

if TYPE_CHECKING:  # messages are loaded with the handlers that have them
    from sharegroup.wire.messages.share_acknowledge import AcknowledgementBatch


async def decide(
    parts: DeliveryParts,
    key: SharePartitionKey,
    batches: Sequence[AcknowledgementBatch],
    access: Access,
) -> None:
    """Let the keys of these records go on, durably; each of ``batches`` is one record.

    Raises:
        InvalidRequest: a batch is no single record, or says neither RELEASE nor REJECT.
        InvalidRecordState: a record is not blocked; the records before it in the request are
            decided.
        UnknownTopicId, TopicAuthorizationFailed, UnknownTopicOrPartition: as their names say.
        KafkaError: the state cannot be read or written.
    """
    name = parts.topics.name_of(key.topic_id)
    if name is None:
        raise UnknownTopicId
    access.require_topic(Operation.READ, name)
    for batch in batches:
        single = batch.first_offset == batch.last_offset and len(batch.acknowledge_types) == 1
        if not single or batch.acknowledge_types[0] not in (AckType.RELEASE, AckType.REJECT):
            raise InvalidRequest("By hand, records are released or rejected one by one.")
    settings = parts.share_partitions.delivery_settings(key.group_id)
    led = await parts.share_partitions.get(key, parts.topics.log(name, key.partition))
    for batch in batches:
        archive = batch.acknowledge_types[0] == AckType.REJECT
        change = led.core.order.decide(batch.first_offset, archive=archive, settings=settings)
        if change is not None:
            await parts.share_partitions.persist([(led, change)])
        parts.share_partitions.wake(led)
