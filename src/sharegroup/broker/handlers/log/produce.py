"""Produce: append record batches; acks=all answers when they are durable."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from sharegroup.broker.authorization.resources import Operation, Resource, ResourceType
from sharegroup.broker.coordination.transaction_writes import TransactionalWrites, Write
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.keyed_locks import Holding
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID, TopicIdPartition
from sharegroup.model.limits import PRODUCED_PARTITIONS_MAX
from sharegroup.model.log import AppendableLog, PartitionLog
from sharegroup.wire.batch import HEADER_BYTES, LOG_APPEND_TIME, TRANSACTIONAL, parse_headers
from sharegroup.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    RepeatedRecord,
    TopicProduceData,
    TopicProduceResponse,
)

NO_ACKS = 0
LEADER_ACK = 1
ALL_ACKS = -1
ATTRIBUTES_LOW_BYTE: Final = 22


class _Appends(NamedTuple):
    """The appends of a request so far."""

    topics: list[TopicProduceResponse]
    waits: list[tuple[AppendableLog, int, PartitionProduceResponse]]


async def produce(
    parts: BrokerParts, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | None:
    """Append everything in order first, then wait for durability; partitions fail on their own.

    Raises:
        NoAnswerWanted: one has failed, and the client wants no answer.
    """
    if request.acks not in (NO_ACKS, LEADER_ACK, ALL_ACKS):
        return failure(request, errors.InvalidRequiredAcks())
    named = len(request.topic_data) + sum(len(t.partition_data) for t in request.topic_data)
    if named > PRODUCED_PARTITIONS_MAX:
        raise errors.MalformedMessage(f"a Produce request with {named} topics and partitions")
    appends = _Appends([], [])
    if any(
        _is_transactional(p.records) for topic in request.topic_data for p in topic.partition_data
    ):
        transactional_id = _require_id(request.transactional_id, context)
        async with parts.transaction_writes.admission(
            transactional_id, context.version
        ) as admission:
            await admission.add(_transactional_writes(parts, request, context))
            await _append_all(parts, request, context, appends, admission, None)
    else:
        await _append_in_turn(parts, request, context, appends)
    if request.acks == ALL_ACKS:
        # Waiting one by one takes no longer: the flusher already works on all of them.
        for wait in appends.waits:
            await _durable(parts, *wait)
    if request.acks != NO_ACKS:
        return ProduceResponse(responses=appends.topics)
    if any(part.error_code for topic in appends.topics for part in topic.partition_responses):
        raise errors.NoAnswerWanted
    return None


async def _append_in_turn(
    parts: BrokerParts, request: ProduceRequest, context: RequestContext, appends: _Appends
) -> None:
    """Append after all earlier requests of the connection, as Kafka does: a producer's batches stay
    in order. Only a request that may wait takes the connection's lock, and it does so before it
    waits; so the lock costs nothing while all batches pass. Transactional requests wait for each
    other in their admission."""
    producing, connection = parts.unpacking.producing, context.connection
    turn = producing.holding(connection)
    try:
        if connection in producing:
            await turn.take()
        await _append_all(parts, request, context, appends, None, turn)
    finally:
        if turn.held:
            turn.give_back()


async def _append_all(
    parts: BrokerParts,
    request: ProduceRequest,
    context: RequestContext,
    appends: _Appends,
    admission: TransactionalWrites | None,
    turn: Holding | None,
) -> None:
    for topic in request.topic_data:
        answers = []
        name = topic.name or parts.topics.name_of(topic.topic_id)
        for partition in topic.partition_data:
            part = PartitionProduceResponse(index=partition.index)
            answers.append(part)
            try:
                if name is not None:
                    context.access.require_topic(Operation.WRITE, name)
                appends.waits.append(await _append(parts, topic, partition, part, admission, turn))
            except errors.KafkaError as error:
                _refuse(parts, part, error)
        topic_id = parts.topics.id_of(name) if name else None
        if topic_id is not None:
            parts.meters.topic(topic_id).produce_requests += 1
        appends.topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )


def failure(request: ProduceRequest, error: errors.KafkaError) -> ProduceResponse | None:
    """Every partition says ``error``; None: the client wants no answer."""
    if request.acks == NO_ACKS:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=p.index,
                        error_code=error.code,
                        base_offset=-1,
                        error_message=error.message,
                    )
                    for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


async def _append(
    parts: BrokerParts,
    topic: TopicProduceData,
    partition: PartitionProduceData,
    part: PartitionProduceResponse,
    admission: TransactionalWrites | None,
    turn: Holding | None,
) -> tuple[AppendableLog, int, PartitionProduceResponse]:
    """Append one partition's batches. Returns the log and end offset to wait for, and the
    partition's response."""
    log = _log_of(parts, topic, partition)
    if not partition.records:
        raise errors.InvalidRequest(
            "a produce request needs at least one record batch for each partition"
        )
    batches = partition.records
    how = log.recompression
    if not parts.unpacking.passes(batches, how):
        if turn is not None and not turn.held:
            await turn.take()
        ids, most = log.ids, log.record_bytes_max
        batches = await parts.unpacking.walked(batches, how, most, ids)
        if ids is not None:
            await parts.unpacking.without_repeats(batches, ids, log)
    write = None
    if admission is not None and _is_transactional(batches):
        write = Write(log, parse_headers(batches)[0])
        admission.check(write)
    appended = await log.append(batches)
    if admission is not None and write is not None:
        admission.appended(write)
    part.base_offset = appended.base_offset
    part.log_append_time_ms = appended.append_time_ms
    if appended.duplicate:
        part.log_append_time_ms = await _append_time_of(log, appended.base_offset)
    part.log_start_offset = log.log_start_offset
    meter = parts.meters.topic(log.topic_id)
    meter.produce_bytes += len(partition.records)
    if log.ids is not None:
        part.repeated = [RepeatedRecord(*each) for each in appended.repeated]
        meter.repeated_records += len(appended.repeated)
        meter.message_ids_forgotten += appended.ids_forgotten
    return log, appended.last_offset + 1, part


async def _append_time_of(log: PartitionLog, offset: int) -> int:
    """When the batch at ``offset`` was appended, in milliseconds since 1970, if the log notes it;
    else -1."""
    with suppress(errors.KafkaError):  # it may be deleted or damaged meanwhile
        data = (await log.read(offset, 1)).data
        for header in parse_headers(data)[:1]:
            if header.attributes & LOG_APPEND_TIME:
                return header.max_timestamp
    return -1


def _log_of(
    parts: BrokerParts, topic: TopicProduceData, partition: PartitionProduceData
) -> PartitionLog:
    if topic.topic_id != NULL_TOPIC_ID:
        log = parts.topics.log_by_id(TopicIdPartition(topic.topic_id, partition.index))
    else:
        log = parts.topics.log(topic.name, partition.index)
    if parts.topics.is_internal(log.topic_partition.topic):
        raise errors.InvalidTopic(
            f"{log.topic_partition.topic} is internal; clients cannot write to it"
        )
    parts.leadership.check(log.topic_id, partition.index)
    return log


def _is_transactional(batches: bytes | None) -> bool:
    """Whether the first batch belongs to a transaction. With a producer id no second batch is
    allowed."""
    if batches is None or len(batches) < HEADER_BYTES:
        return False
    return bool(batches[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL)


def _require_id(transactional_id: str | None, context: RequestContext) -> str:
    """The transactional id, which the client must be allowed to use.

    Raises:
        TransactionalIdAuthorizationFailed: the client may not use the id, or names no id.
    """
    if not transactional_id:
        raise errors.TransactionalIdAuthorizationFailed
    context.access.require(
        Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
    )
    return transactional_id


def _transactional_writes(
    parts: BrokerParts, request: ProduceRequest, context: RequestContext
) -> list[Write]:
    """The transactional batches that can be appended, as far as their headers tell."""
    writes = []
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if not _is_transactional(partition.records):
                continue
            with suppress(
                errors.KafkaError
            ):  # the append raises the error again, and it is answered then
                log = _log_of(parts, topic, partition)
                context.access.require_topic(Operation.WRITE, log.topic_partition.topic)
                writes.append(Write(log, parse_headers(partition.records or b"")[0]))
    return writes


async def _durable(
    parts: BrokerParts, log: AppendableLog, end_offset: int, part: PartitionProduceResponse
) -> None:
    try:
        await log.wait_durable(end_offset)
    except errors.KafkaError as error:
        _refuse(parts, part, error)


def _refuse(parts: BrokerParts, part: PartitionProduceResponse, error: errors.KafkaError) -> None:
    """Set the error; an older client reads only the code."""
    parts.counters.trouble("produce_errors", error.name, str(error))
    part.error_code = error.code
    part.record_errors = [BatchIndexAndErrorMessage(at, why) for at, why in error.records]
    part.error_message = None if isinstance(error, errors.UnknownServerError) else error.message
    part.base_offset = -1
    part.repeated = ()
    part.log_append_time_ms = -1
