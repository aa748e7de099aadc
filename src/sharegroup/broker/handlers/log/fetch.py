"""Fetch: record batches for consumers that read partitions themselves, in incremental sessions
(``fetch_sessions``) where the consumer wants one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, cast
from uuid import UUID

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.fetch_sessions import Wanted
from sharegroup.broker.handlers.log.fetch_ranges import RangeFetch
from sharegroup.broker.handlers.log.fetch_turns import read_turn
from sharegroup.broker.handlers.moved_leaders import MovedLeaders
from sharegroup.broker.handlers.passing_errors import as_readers_expect
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import KafkaError, OffsetOutOfRange
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.log import ReadableLog
from sharegroup.wire.batch import end_offset_of
from sharegroup.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

READ_COMMITTED: Final = 1
LEADERS_SINCE: Final = 16
"""The version whose answers name new leaders."""


async def fetch(
    parts: BrokerParts, request: FetchRequest, context: RequestContext
) -> FetchResponse:
    """Read; wait up to the request's time for ``min_bytes``, an error, or a deleted partition.

    Raises:
        FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: the request does
            not fit the session that it names.
    """
    now_ms = parts.clock.monotonic_ms
    fetching = parts.fetch_sessions.begin(request, context.version, now_ms())
    wanted = fetching.wanted
    found = await _found(parts, request, wanted, context)
    told = parts.fetch_sessions.end(request, context.version, fetching, found, now_ms())
    if len(told.indexes) < len(found):
        wanted, found = [wanted[at] for at in told.indexes], [found[at] for at in told.indexes]
    response = _response(wanted, found, told.session_id)
    if context.version >= LEADERS_SINCE:
        _name_leaders(parts, wanted, found, context, response)
    return response


async def _found(
    parts: BrokerParts, request: FetchRequest, wanted: Wanted, context: RequestContext
) -> list[PartitionData]:
    """The data of each partition, as soon as there is enough for an answer."""
    until = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
    ids = [TopicIdPartition(_topic_id(parts, topic), part.partition) for topic, part in wanted]
    for topic_id in {key.topic_id for key in ids}:
        if parts.topics.name_of(topic_id) is not None:
            parts.meters.topic(topic_id).fetch_requests += 1
    by_range = RangeFetch(parts)
    with parts.waiters.watch(ids, context.connection) as waiter:
        while True:
            last_look = asyncio.get_running_loop().time() >= until or parts.waiters.closed
            most = min(parts.configs.broker.integer("fetch.max.bytes"), context.answer_bytes_max())
            bytes_max = min(request.max_bytes, most)
            bytes_min = request.min_bytes if request.min_bytes <= most else 1
            found, size, failed = await _look(parts, request, wanted, context, bytes_max, by_range)
            if size >= bytes_min or failed or last_look or not wanted or by_range.spent:
                return found
            await waiter.wait(until)
            if context.connection not in parts.connections:
                return found


def _topic_id(parts: BrokerParts, topic: FetchTopic) -> UUID:
    if not topic.topic:
        return topic.topic_id
    found = parts.topics.find(topic.topic)
    return topic.topic_id if found is None else found.topic_id


async def _look(
    parts: BrokerParts,
    request: FetchRequest,
    wanted: Wanted,
    context: RequestContext,
    bytes_max: int,
    by_range: RangeFetch,
) -> tuple[list[PartitionData], int, bool]:
    """Read once; returns the partitions' data, the total bytes, and whether any has an error."""
    found = []
    size = 0
    failed = False
    committed = request.isolation_level == READ_COMMITTED
    async for at, (topic, partition) in sliced(enumerate(wanted)):
        part = PartitionData(partition_index=partition.partition, records=b"")
        found.append(part)
        try:
            name = topic.topic or parts.topics.name_of(topic.topic_id)
            if name is not None:
                context.access.require_topic(Operation.READ, name)
            log = _log(parts, topic, partition)
            current = partition.current_leader_epoch
            parts.leadership.check(log.topic_id, partition.partition, current)
            # Kafka's rule: the first batch of a response goes out even when it is over the limits.
            left = max(bytes_max - size, 0)
            space = _Space(min(partition.partition_max_bytes, left), first=size == 0)
            begin = by_range.begins_at(at, partition)
            if partition.turn:  # the broker decides what this member reads, whatever the offset
                begin = log.log_start_offset
            known = log.is_followed and log.log_start_offset <= begin <= log.high_watermark
            if not known:  # as far as is known here
                await _check_offset(parts, log, begin, part)
            end = _begin(log, part, committed=committed)
            if partition.turn:
                member = request.member
                await read_turn(parts, context, member, log, partition, part, space)
            elif partition.key_ranges:
                await by_range.read(at, log, partition, part, space)
            elif begin < end:
                await _read(log, begin, end, part, space)
        except KafkaError as error:
            told = as_readers_expect(error)
            # What comes from others will pass: who was told so at once would ask again at once.
            failed |= told is error
            part.error_code = told.code
            part.high_watermark = -1
            parts.counters.add("fetch_errors", error.name)
        sent = len(part.records or b"")
        size += sent
        if sent:
            parts.meters.topic(log.topic_id).fetch_bytes += sent
    return found, size, failed


def _log(parts: BrokerParts, topic: FetchTopic, partition: FetchPartition) -> ReadableLog:
    if topic.topic:
        return parts.topics.log(topic.topic, partition.partition)
    return parts.topics.log_by_id(TopicIdPartition(topic.topic_id, partition.partition))


class _Space(NamedTuple):
    """Room in the response for one partition."""

    bytes_max: int
    first: bool
    """Nothing has been read yet: the first batch is sent whatever its size."""


async def _read(
    log: ReadableLog, offset: int, end: int, part: PartitionData, space: _Space
) -> None:
    """Read up to the offset ``end`` into ``part``, as far as there is room."""
    if space.bytes_max <= 0 and not space.first:
        return
    bytes_max = max(space.bytes_max, 1)
    read = await log.read(offset, bytes_max, end_offset=end, stored=True)
    found = read.stored.range if read.stored else read.data
    if len(found) > space.bytes_max and not space.first:
        return
    part.records = cast(bytes, found)  # whoever writes the answer takes a range too
    if part.aborted_transactions is not None and found:
        end = read.stored.end_offset if read.stored else end_offset_of(read.data)
        aborted = await log.aborted_transactions(offset, end)
        part.aborted_transactions = [AbortedTransaction(*each) for each in aborted]


async def _check_offset(
    parts: BrokerParts, log: ReadableLog, offset: int, part: PartitionData
) -> None:
    """Ask the log whether it has ``offset``, or will have it next. It is followed then.

    Raises:
        OffsetOutOfRange: it has not.
    """
    now = await log.offsets()
    if not now.start <= offset <= now.end:
        part.aborted_transactions = None
        raise OffsetOutOfRange  # without offsets, as in Kafka
    if not log.is_followed:
        parts.waiters.follow(log)


def _begin(log: ReadableLog, part: PartitionData, *, committed: bool) -> int:
    """Set the log's offsets in ``part``. Returns the end of the records that may be read."""
    part.high_watermark = log.high_watermark
    part.last_stable_offset = log.last_stable_offset
    part.log_start_offset = log.log_start_offset
    part.aborted_transactions = [] if committed else None
    return part.last_stable_offset if committed else part.high_watermark


def _response(wanted: Wanted, found: list[PartitionData], session_id: int) -> FetchResponse:
    topics: dict[tuple[str, UUID], list[PartitionData]] = {}
    for (topic, _), part in zip(wanted, found, strict=True):
        topics.setdefault((topic.topic, topic.topic_id), []).append(part)
    return FetchResponse(
        session_id=session_id,
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=own)
            for (name, topic_id), own in topics.items()
        ],
    )


def _name_leaders(
    parts: BrokerParts,
    wanted: Wanted,
    found: Sequence[PartitionData],
    context: RequestContext,
    response: FetchResponse,
) -> None:
    """Say who leads the partitions that have moved."""
    moved = MovedLeaders(parts.leadership, context.advertised)
    for (topic, _), part in zip(wanted, found, strict=True):
        if part.error_code:
            key = TopicIdPartition(_topic_id(parts, topic), part.partition_index)
            part.current_leader = LeaderIdAndEpoch(*moved.leader(key, part.error_code))
    response.node_endpoints = [NodeEndpoint(*node) for node in moved.nodes()]
