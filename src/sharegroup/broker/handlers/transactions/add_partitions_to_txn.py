"""AddPartitionsToTxn: add partitions to a transaction, or verify that they are part of it.

Clients send versions up to 3, with one transaction. Brokers send later versions, with many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sharegroup.broker.authorization.resources import CLUSTER, Operation, Resource, ResourceType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.transactions.transaction import EPOCH_PER_TRANSACTION, IdAndEpoch
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

BATCHED_FROM: Final = 4
ABORTABLE_FROM: Final = 5
FENCED_FROM: Final = 2


class AddedTransaction(NamedTuple):
    """One transaction of a request."""

    transactional_id: str
    producer: IdAndEpoch
    topics: Sequence[AddPartitionsToTxnTopic]
    verify_only: bool = False


async def add_partitions_to_txn(
    parts: BrokerParts, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    """Add all partitions of a transaction, or no partition of it."""
    if context.version >= BATCHED_FROM:
        context.access.require(Operation.CLUSTER_ACTION, CLUSTER)
        results = []
        for each in request.transactions:
            producer = IdAndEpoch(each.producer_id, each.producer_epoch)
            wanted = AddedTransaction(
                each.transactional_id, producer, each.topics, each.verify_only
            )
            answers = await _one(parts, wanted, context)
            results.append(AddPartitionsToTxnResult(each.transactional_id, answers))
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    wanted = AddedTransaction(
        request.v3_and_below_transactional_id,
        IdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _one(parts, wanted, context)
    )


def failure(
    request: AddPartitionsToTxnRequest, error: errors.KafkaError
) -> AddPartitionsToTxnResponse:
    """Every partition says ``error``, and so does the whole response."""
    topics = request.v3_and_below_topics
    codes = dict.fromkeys(_partitions(topics), error.code)
    return AddPartitionsToTxnResponse(
        error_code=error.code, results_by_topic_v3_and_below=_results(topics, codes)
    )


async def _one(
    parts: BrokerParts, wanted: AddedTransaction, context: RequestContext
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = _partitions(wanted.topics)
    try:
        if context.version < BATCHED_FROM:  # a broker that asks has checked its client's rights
            context.access.require(
                Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, wanted.transactional_id)
            )
        codes = _refused(parts, partitions, context)
        if codes:
            codes = {
                where: codes.get(where, errors.OperationNotAttempted.code) for where in partitions
            }
        elif wanted.verify_only:
            codes = {where: _verify(parts, wanted, where, context) for where in partitions}
        else:
            batched = context.version >= BATCHED_FROM
            await parts.transactions.add_partitions(
                wanted.transactional_id,
                wanted.producer,
                frozenset(partitions),
                EPOCH_PER_TRANSACTION if batched else 0,
            )
            codes = dict.fromkeys(partitions, errors.NONE)
    except errors.KafkaError as error:
        codes = dict.fromkeys(partitions, _code(error, context.version))
    return _results(wanted.topics, codes)


def _refused(
    parts: BrokerParts, partitions: Sequence[TopicPartition], context: RequestContext
) -> dict[TopicPartition, int]:
    """The partitions that the client may not write to, with the error of each."""
    codes = {}
    for where in partitions:
        try:
            _check(parts, where, context)
        except errors.KafkaError as error:
            codes[where] = error.code
    return codes


def _check(parts: BrokerParts, where: TopicPartition, context: RequestContext) -> None:
    if parts.topics.is_internal(where.topic):
        raise errors.TopicAuthorizationFailed
    if context.version < BATCHED_FROM:
        context.access.require_topic(Operation.WRITE, where.topic)
    topic = parts.topics.find(where.topic)
    if topic is None or not 0 <= where.partition < topic.partition_count:
        raise errors.UnknownTopicOrPartition


def _verify(
    parts: BrokerParts, wanted: AddedTransaction, where: TopicPartition, context: RequestContext
) -> int:
    try:
        parts.transactions.check_write(wanted.transactional_id, wanted.producer, where)
    except errors.KafkaError as error:
        return _code(error, context.version)
    return errors.NONE


def _code(error: errors.KafkaError, version: int) -> int:
    """The error's code, or an older one that the client knows."""
    if isinstance(error, errors.ProducerFenced) and version < FENCED_FROM:
        return errors.InvalidProducerEpoch.code
    if isinstance(error, errors.TransactionAbortable) and version < ABORTABLE_FROM:
        return errors.InvalidTxnState.code
    return error.code


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: dict[TopicPartition, int]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, codes[TopicPartition(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
