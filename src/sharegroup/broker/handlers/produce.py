"""Produce: append record batches; acks=all answers when they are durable."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import (
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    UnknownServerError,
)
from sharegroup.model.ids import NULL_TOPIC_ID, TopicIdPartition
from sharegroup.model.log import PartitionLog
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

NO_ACKS = 0
LEADER_ACK = 1
ALL_ACKS = -1


async def produce(
    parts: BrokerParts, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | None:
    """Append everything in order first, then wait for durability; partitions fail on their own."""
    if request.acks not in (NO_ACKS, LEADER_ACK, ALL_ACKS):
        return failure(request, InvalidRequiredAcks())
    waits: list[tuple[PartitionLog, int, PartitionProduceResponse]] = []
    topics = []
    for topic in request.topic_data:
        answers = []
        name = topic.name or parts.topics.name_of(topic.topic_id)
        for partition in topic.partition_data:
            part = PartitionProduceResponse(index=partition.index)
            answers.append(part)
            try:
                if name is not None:
                    context.access.require_topic(Operation.WRITE, name)
                await _append(parts, topic, partition, part, waits)
            except KafkaError as error:
                _refuse(parts, part, error)
        topic_id = parts.topics.id_of(name) if name else None
        if topic_id is not None:
            parts.meters.topic(topic_id).produce_requests += 1
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if request.acks == ALL_ACKS:
        # Waiting one by one takes no longer: the flusher already works on all of them.
        for wait in waits:
            await _durable(parts, *wait)
    return None if request.acks == NO_ACKS else ProduceResponse(responses=topics)


def failure(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    """Every partition says ``error``."""
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
    waits: list[tuple[PartitionLog, int, PartitionProduceResponse]],
) -> None:
    if topic.topic_id != NULL_TOPIC_ID:
        log = parts.topics.log_by_id(TopicIdPartition(topic.topic_id, partition.index))
    else:
        log = parts.topics.log(topic.name, partition.index)
    if parts.topics.is_internal(log.topic_partition.topic):
        raise InvalidTopic(f"{log.topic_partition.topic} is internal; clients cannot write to it")
    if not partition.records:
        raise InvalidRequest("a produce request needs at least one record batch for each partition")
    batches = partition.records
    how = log.recompression
    if not parts.unpacking.passes(batches, how):
        where = TopicIdPartition(log.topic_id, partition.index)
        batches = await parts.unpacking.walked(where, batches, how)
    appended = await log.append(batches)
    part.base_offset = appended.base_offset
    part.log_append_time_ms = appended.append_time_ms
    part.log_start_offset = log.log_start_offset
    waits.append((log, appended.last_offset + 1, part))
    parts.meters.topic(log.topic_id).produce_bytes += len(partition.records)


async def _durable(
    parts: BrokerParts, log: PartitionLog, end_offset: int, part: PartitionProduceResponse
) -> None:
    try:
        await log.wait_durable(end_offset)
    except KafkaError as error:
        _refuse(parts, part, error)


def _refuse(parts: BrokerParts, part: PartitionProduceResponse, error: KafkaError) -> None:
    """Set the error; an older client reads only the code."""
    parts.counters.trouble("produce_errors", error.name, str(error))
    part.error_code = error.code
    part.error_message = None if isinstance(error, UnknownServerError) else error.message
    part.base_offset = -1
    part.log_append_time_ms = -1
