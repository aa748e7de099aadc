"""Reads partitions from an offset on by plain Fetch: without a group, and without locking records.

Several partitions are read at once; the records of one ascend in offset. Unreadable data is logged
and skipped, as a share group skips it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.client.core.key_ranges import KeyRanges, without_ranges
from sharegroup.client.core.record import Headers
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import NO_LEADER
from sharegroup.client.network.retrying import pause
from sharegroup.client.records.batch_reader import records_of
from sharegroup.client.records.hidden import hidden_ranges
from sharegroup.model.errors import (
    CorruptMessage,
    LeaderNotAvailable,
    OffsetOutOfRange,
    RetriableError,
    error_from_code,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import AbortedTransaction
from sharegroup.records.batches import Bounds, place
from sharegroup.wire.apis import FETCH
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from sharegroup.wire.messages.ranges import Range

log = logging.getLogger("sharegroup.client")

FETCH_BYTES: Final = 8 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
WAIT_MS: Final = 500
ENDLESS: Final = 2**63 - 1
DAMAGED: Final = "the log has lost them"


class LogRecord(NamedTuple):
    """A record as it is in the log. ``timestamp``: ms since 1970, -1: none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    delivery_count: None = None
    """No group delivered the record."""


class LogReader:
    """Reads each partition of ``spans`` from its first offset on, up to its end.

    Args:
        cluster: started, and closed by the caller.
        spans: partition → (first offset, end); the record at ``end`` is not read, and with None
            the reader reads on for ever.
        key_ranges: read only records whose keys are in these ranges; empty: all records.
        committed: leave out records of aborted transactions, and wait at the first record of an
            open transaction.
    """

    def __init__(
        self,
        cluster: Cluster,
        spans: Mapping[TopicPartition, tuple[int, int | None]],
        key_ranges: KeyRanges = (),
        *,
        committed: bool = False,
    ) -> None:
        self._committed = committed
        self._key_ranges = [Range(*each) for each in key_ranges]
        self._cluster = cluster
        self._next = {where: first for where, (first, _) in spans.items()}
        self._lost: dict[TopicPartition, int] = {}  # where the hole begins that we cross
        self._ends = {where: ENDLESS if end is None else end for where, (_, end) in spans.items()}

    async def records(self) -> AsyncIterator[list[LogRecord]]:
        """The records of each step. There may be none: a broker waits for records for half a
        second. Ends when all partitions are read to their ends.

        Raises:
            KafkaError: a partition cannot be read. A transient error is raised after
                ``request_timeout_ms``.
        """
        loop = asyncio.get_running_loop()
        failing_since: float | None = None
        pauses = self._cluster.pauses()
        while wanted := self._wanted():
            try:
                found = await self._step(wanted)
            except RetriableError as error:
                failing_since = failing_since or loop.time()
                if loop.time() - failing_since > self._cluster.request_timeout_ms / 1000:
                    raise
                log.info("retrying the read: %s", error)
                await pause(pauses)
                await self._refresh()
                continue
            failing_since = None
            pauses.reset()
            yield found

    def _wanted(self) -> list[TopicPartition]:
        return [where for where, offset in self._next.items() if offset < self._ends[where]]

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
        except RetriableError as error:
            log.info("metadata could not be refreshed: %s", error)

    # --- one step ---------------------------------------------------------------------------------

    async def _step(self, wanted: list[TopicPartition]) -> list[LogRecord]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for where in wanted:
            topic = await self._cluster.topic(where.topic)
            leader = topic.partitions[where.partition].leader
            if leader == NO_LEADER:
                raise LeaderNotAvailable(f"{where} has no leader now")
            by_leader.setdefault(leader, []).append(where)
        found = await asyncio.gather(
            *(self._fetched(leader, mine) for leader, mine in by_leader.items())
        )
        return [record for records in found for record in records]

    async def _fetched(self, leader: int, mine: list[TopicPartition]) -> list[LogRecord]:
        metadata = self._cluster.metadata
        parts: dict[str, list[FetchPartition]] = {}
        for where in mine:
            part = FetchPartition(
                partition=where.partition,
                fetch_offset=self._next[where],
                partition_max_bytes=PARTITION_BYTES,
                key_ranges=self._key_ranges,
            )
            parts.setdefault(where.topic, []).append(part)
        topics = [
            FetchTopic(topic=name, topic_id=metadata.topics[name].topic_id, partitions=own)
            for name, own in parts.items()
        ]
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self._committed),
            topics=topics,
        )
        response: FetchResponse = await self._cluster.send(leader, FETCH, request)
        if response.error_code:
            raise error_from_code(response.error_code)
        answers = [
            (TopicPartition(name, one.partition_index), one)
            for topic in response.responses
            for name in [topic.topic or metadata.name_of(topic.topic_id) or ""]
            for one in topic.partitions
        ]
        nothing = not any(one.records for _, one in answers)
        found: list[LogRecord] = []
        for where, answer in answers:
            if where in self._next:
                found += await self._taken(where, answer, nothing=nothing)
        return found

    async def _taken(
        self, where: TopicPartition, answer: PartitionData, *, nothing: bool
    ) -> list[LogRecord]:
        """The wanted records of one partition. Moves the position past them.

        Args:
            nothing: the broker returned no bytes of any partition. So an empty answer for this one
                does not mean that other partitions used up the room of the response.
        """
        offset = self._next[where]
        if answer.error_code == OffsetOutOfRange.code:
            await self._find_start(where)
            return []
        if answer.error_code == CorruptMessage.code:
            self._cross(where)
            return []
        if answer.error_code:
            raise error_from_code(answer.error_code, f"{where}: {_text(answer)}")
        if where in self._lost:
            _warn(where, self._lost.pop(where), offset - 1, DAMAGED)
        if self._key_ranges and answer.read_up_to < 0:
            raise without_ranges(where)
        end = answer.last_stable_offset if self._committed else answer.high_watermark
        if not self._key_ranges and nothing and end > offset:
            self._pass_over(where, end, DAMAGED)
        return self._read(where, answer)

    def _read(self, where: TopicPartition, answer: PartitionData) -> list[LogRecord]:
        offset, end = self._next[where], self._ends[where]
        aborted = [
            AbortedTransaction(one.producer_id, one.first_offset)
            for one in answer.aborted_transactions or ()
        ]
        fetched = answer.records or b""
        hidden, data = hidden_ranges(fetched, aborted, check_crcs=True)
        placed = place(memoryview(data), end - 1, _records)
        found: list[LogRecord] = []
        for piece in placed.pieces:
            if piece.damage is not None:
                _warn(where, piece.first, min(piece.last, end - 1), str(piece.damage))
            if any(first <= piece.first <= last for first, last in hidden):
                continue
            found += [
                LogRecord(*where, one.offset, one.timestamp, one.key, one.value, one.headers)
                for one in piece.value or ()
                if offset <= one.offset < end
            ]
        if placed.cut is not None and not placed.pieces:
            raise placed.cut
        behind = answer.read_up_to if len(data) == len(fetched) else -1
        self._next[where] = max(self._next[where], placed.end, behind)
        return found

    def _cross(self, where: TopicPartition) -> None:
        """Skip a lost offset. The end of the hole is not known: try the next offset."""
        self._lost.setdefault(where, self._next[where])
        self._next[where] += 1
        if self._next[where] >= self._ends[where]:
            _warn(where, self._lost.pop(where), self._next[where] - 1, DAMAGED)

    async def _find_start(self, where: TopicPartition) -> None:
        """Handle an offset out of range: after retention, or in a recreated topic."""
        admin = Admin(cluster=self._cluster)
        first = (await admin.list_offsets([where], OffsetSpec.EARLIEST))[where].offset
        if first <= self._next[where]:
            raise OffsetOutOfRange(f"{where} has no offset {self._next[where]}")
        self._pass_over(where, first, "they have been deleted")

    def _pass_over(self, where: TopicPartition, end: int, why: str) -> None:
        _warn(where, self._next[where], min(end, self._ends[where]) - 1, why)
        self._next[where] = end


def _warn(where: TopicPartition, first: int, last: int, why: str) -> None:
    log.warning("skipped: %d-%d of %s: %s", first, last, where, why)


def _records(one: Bounds) -> list[Any] | None:
    return records_of(one.batch, check_crcs=True)


def _text(answer: PartitionData) -> str:
    return error_from_code(answer.error_code).message
