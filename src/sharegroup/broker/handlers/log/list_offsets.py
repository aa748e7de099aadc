"""ListOffsets: earliest, latest, by timestamp, by the largest timestamp."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.handlers.passing_errors import as_readers_expect
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import InvalidRequest, KafkaError
from sharegroup.model.log import ReadableLog
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

READ_COMMITTED: Final = 1
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


async def list_offsets(
    parts: BrokerParts, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse:
    """One look-up per partition; each fails on its own."""
    topics = []
    committed = request.isolation_level == READ_COMMITTED
    async for topic in sliced(request.topics):
        partitions = [
            await _offset(parts, context, topic.name, partition, committed=committed)
            async for partition in sliced(topic.partitions)
        ]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _offset(
    parts: BrokerParts,
    context: RequestContext,
    name: str,
    partition: ListOffsetsPartition,
    *,
    committed: bool,
) -> ListOffsetsPartitionResponse:
    part = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    try:
        context.access.require_topic(Operation.DESCRIBE, name)
        index = partition.partition_index
        # librdkafka takes it for final that a topic is not known.
        log: ReadableLog = await parts.topics.log_of_client(name, index)
        parts.leadership.check(log.topic_id, index, partition.current_leader_epoch)
        part.timestamp, part.offset = await _look_up(log, partition.timestamp, committed=committed)
        if part.offset >= 0:  # without an offset there is no epoch either, as in Kafka
            part.leader_epoch = parts.leadership.log_epoch
    except KafkaError as error:
        part.error_code = as_readers_expect(error).code
        parts.counters.add("list_offsets_errors", error.name)
    return part


async def _look_up(log: ReadableLog, timestamp: int, *, committed: bool) -> tuple[int, int]:
    """(timestamp, offset) that were found; -1 in place of what there is not. With ``committed``
    only records below the last stable offset count."""
    now = await log.offsets()
    end = now.last_stable if committed else now.high_watermark
    if timestamp == LATEST:
        return -1, end
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, now.start
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # there is no tiered storage
        return -1, -1
    if timestamp == MAX_TIMESTAMP:
        found = await log.offset_of_max_timestamp()
    elif timestamp >= 0:
        found = await log.offset_for_timestamp(timestamp)
    else:
        raise InvalidRequest(f"timestamp {timestamp} has no meaning")
    return (-1, -1) if found is None or found[0] >= end else (found[1], found[0])
