"""Reads partitions from an offset on, up to another one, with a consumer that has no group. Offsets
that are lost, damaged or deleted are logged and skipped, as a share group skips them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple

from sharegroup.client.consumer import Consumer
from sharegroup.client.core.key_ranges import KeyRanges
from sharegroup.client.core.record import ConsumerRecord, Headers
from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.model.errors import CorruptMessage, OffsetOutOfRange
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")

Spans = Mapping[TopicPartition, tuple[int, int | None]]
"""Partition → the offset to begin at, and the one to end before; None: never end."""

WAIT_S: Final = 0.5
"""How long, in seconds, to wait for new records at once."""
SHORT_WAIT_S: Final = 0.05
"""The same where the log has records up to the end: no record may be left that can be shown."""
SILENCE_S: Final = 10.0
"""After so many seconds without records, ask whether the partitions are still there."""
_LOST: Final = "the log has lost them"


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


def as_log_record(one: ConsumerRecord[bytes, bytes]) -> LogRecord:
    """A record as a consumer gives it, apart from the consumer."""
    return LogRecord(
        *one.topic_partition, one.offset, one.timestamp, one.key, one.value, one.headers
    )


class LogReading:
    """Reads ``spans``. Several partitions are read at once; the records of one ascend in offset.

    Args:
        consumer: has no group, and ``auto_offset_reset='none'``.
        key_ranges: read only records whose keys are in these ranges; empty: all records.
    """

    def __init__(
        self, consumer: Consumer[bytes, bytes], spans: Spans, key_ranges: KeyRanges
    ) -> None:
        self._consumer = consumer
        self._key_ranges = key_ranges
        self._ends = {
            where: end for where, (first, end) in spans.items() if end is None or first < end
        }
        self._lost: dict[TopicPartition, tuple[int, int]] = {}  # the holes that we cross
        self._assign()
        for where in self._ends:
            consumer.seek(*where, spans[where][0])

    async def records(self) -> AsyncIterator[list[LogRecord]]:
        """The records of each step. There may be none, because new ones are waited for. Ends when
        all partitions are read to their ends.

        Raises:
            KafkaError: a partition cannot be read.
        """
        async for found in self.consumed():
            yield [as_log_record(one) for one in found]

    async def consumed(self) -> AsyncIterator[list[ConsumerRecord[bytes, bytes]]]:
        """As :meth:`records`, but as the consumer gives them: that costs less."""
        clock = asyncio.get_running_loop().time
        heard_s = clock()
        while self._ends:
            endless = None in self._ends.values()
            try:
                found = await self._consumer.poll(
                    round((WAIT_S if endless else SHORT_WAIT_S) * 1000)
                )
            except CorruptRecordBatch as error:
                await self._skip(error)
            except OffsetOutOfRange:
                await self._find_starts()
            else:
                if not found and clock() - heard_s > SILENCE_S:
                    await self._consumer.end_offsets()  # raises if no broker has them any more
                    heard_s = clock()
                if found:
                    heard_s = clock()
                yield self._taken(found)
            await self._leave_read_ones()

    # --- one step ---------------------------------------------------------------------------------

    def _taken(
        self, found: Sequence[ConsumerRecord[bytes, bytes]]
    ) -> list[ConsumerRecord[bytes, bytes]]:
        """The wanted ones of these records."""
        over = {one.topic_partition for one in found} if found else set(self._lost)
        for where in over & self._lost.keys():
            self._say_lost(where)
        return [
            one
            for one in found
            if (end := self._ends[one.topic_partition]) is None or one.offset < end
        ]

    async def _leave_read_ones(self) -> None:
        """Read the partitions no more that are at their ends."""
        over = [
            where
            for where, end in self._ends.items()
            if end is not None and await self._consumer.position(*where) >= end
        ]
        for where in over:
            if where in self._lost:
                self._say_lost(where)
            del self._ends[where]
        if over:
            self._assign()

    def _assign(self) -> None:
        self._consumer.assign(dict.fromkeys(self._ends, self._key_ranges))

    # --- what cannot be read ----------------------------------------------------------------------

    async def _skip(self, error: CorruptRecordBatch) -> None:
        """The consumer goes on after these offsets. The broker names lost ones one by one: they are
        logged when the hole has been crossed."""
        where, first = error.partition, error.offset
        position = await self._consumer.position(*where)
        if position <= first:
            raise error  # the consumer does not go on
        if not isinstance(error.__cause__, CorruptMessage):
            self._warn(where, first, position, error.reason)
            return
        if where in self._lost and self._lost[where][1] != first:
            self._say_lost(where)
        self._lost[where] = (self._lost.get(where, (first,))[0], position)

    def _say_lost(self, where: TopicPartition) -> None:
        self._warn(where, *self._lost.pop(where), _LOST)

    async def _find_starts(self) -> None:
        """Handle an offset out of range: after retention, or in a recreated topic."""
        begins = await self._consumer.beginning_offsets(*self._ends)
        ends = await self._consumer.end_offsets(*self._ends)
        for where, begin in begins.items():
            position = await self._consumer.position(*where)
            if position < begin:
                self._warn(where, position, begin, "they have been deleted")
                self._consumer.seek(*where, begin)
            elif position > ends[where]:
                raise OffsetOutOfRange(f"{where} has no offset {position}")

    def _warn(self, where: TopicPartition, first: int, behind: int, why: str) -> None:
        """Log that the offsets from ``first`` to the one before ``behind`` are skipped."""
        end = self._ends[where]
        last = (behind if end is None else min(behind, end)) - 1
        log.warning("skipped: %d-%d of %s: %s", first, last, where, why)
