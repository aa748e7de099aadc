"""The log of the coordinator of groups: a partition of ``__consumer_offsets``, and the partition of
``__individual_commit_offsets`` beside it with the ranges that groups have committed (KIP-X).

To the runtime the two logs are one. The type of its key tells which log a record goes to. The topic
of ranges is made for the first range, and the log cleaner keeps it short: a rewrite concerns only
the log of offsets. A write to both logs is durable when both parts are; ``groups.range_commits``
says what a crash between the two parts may leave.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from sharegroup.broker.coordination.log import (
    CoordinatorLog,
    EndOfTransaction,
    KeyValue,
    LoggedEnd,
    LoggedRecord,
    ProducerEpoch,
    Ticket,
)
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.internal.range_commits import KEY_PREFIX


class _Both(NamedTuple):
    """Records in both logs, the ranges first; implements ``log.Ticket``."""

    ranges: Ticket
    offsets: Ticket

    async def durable(self) -> int:
        """Return the first offset in the log of offsets when all records are durable. See
        ``log.Ticket``."""
        await self.ranges.durable()
        return await self.offsets.durable()


class OffsetsLog:
    """Implements ``log.CoordinatorLog``."""

    def __init__(self, offsets: CoordinatorLog, ranges: CoordinatorLog) -> None:
        self.name = offsets.name
        self._offsets = offsets
        self._ranges = ranges
        self._replaying = offsets

    @property
    def exists(self) -> bool:
        """Whether the topic of offsets has been made."""
        return self._offsets.exists

    @property
    def start_offset(self) -> int:
        """Where a replay of the offsets begins."""
        return self._offsets.start_offset

    @property
    def durable_end(self) -> int:
        """The end of the durable records in the log of offsets."""
        return self._offsets.durable_end

    @property
    def record_count(self) -> int:
        """About how many records of offsets a replay passes over."""
        return self._offsets.record_count

    async def ensure(self) -> None:
        """Make the topic of offsets unless it exists, and complete the topic of ranges if a crash
        has left it half made. Raises KafkaStorageError."""
        await self._offsets.ensure()
        if self._ranges.exists:
            await self._ranges.ensure()

    async def is_made(self) -> bool:
        """Whether the topic of offsets exists. If somebody is making it, waits for that to end."""
        return await self._offsets.is_made()

    def submit(
        self,
        records: Sequence[KeyValue],
        producer: ProducerEpoch | None = None,
        *,
        flush: bool = True,
    ) -> Ticket:
        """See ``log.CoordinatorLog``."""
        if not self._ranges.exists:
            return self._offsets.submit(records, producer, flush=flush)
        ranges = [record for record in records if record[0][:2] == KEY_PREFIX]
        if records and not ranges:
            return self._offsets.submit(records, producer, flush=flush)
        others = records
        if ranges:
            others = [record for record in records if record[0][:2] != KEY_PREFIX]
        written = self._ranges.submit(ranges, flush=flush)
        return _Both(written, self._offsets.submit(others, producer, flush=flush))

    def submit_end(self, end: EndOfTransaction) -> Ticket:
        """See ``log.CoordinatorLog``."""
        return self._offsets.submit_end(end)

    def check_producer(self, producer: ProducerEpoch) -> None:
        """See ``log.CoordinatorLog``."""
        self._offsets.check_producer(producer)

    async def replay(self) -> AsyncIterator[LoggedRecord | LoggedEnd]:
        """Every record of the log of offsets, then every record of the log of ranges."""
        self._replaying = self._offsets
        async for entry in self._offsets.replay():
            yield entry
        if self._ranges.exists:
            self._replaying = self._ranges
            async for entry in self._ranges.replay():
                yield entry

    async def delete_before(self, offset: int) -> int:
        """Delete records of offsets. See ``log.CoordinatorLog``."""
        return await self._offsets.delete_before(offset)

    def leave_out(self, offset: int, error: MalformedMessage) -> None:
        """See ``log.CoordinatorLog``."""
        self._replaying.leave_out(offset, error)

    async def give_up(self) -> None:
        """See ``log.CoordinatorLog``."""
        await self._offsets.give_up()
