"""Internal topics, and their partitions as logs of coordinators.

The topic is created with its first record, so that an unused broker has no files for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from sharegroup.broker.coordination.log import KeyValue, LoggedRecord
from sharegroup.broker.topics import Topics
from sharegroup.model.environment import Clock
from sharegroup.model.errors import CorruptMessage, MalformedMessage
from sharegroup.model.log import TrustedLog
from sharegroup.wire.batch import decode_batch, encode_batch, end_offset_of
from sharegroup.wire.markers import aborted_ranges

logger = logging.getLogger("sharegroup.broker")

READ_BYTES: Final = 4 << 20
"""Bytes per read at replay: large enough that reads do not dominate its time."""


class InternalTopic:
    """One internal topic of this broker."""

    def __init__(self, name: str, partitions: int, topics: Topics, clock: Clock) -> None:
        self.name = name
        self._partitions_wanted = partitions
        self._topics = topics
        self._clock = clock
        self._making = asyncio.Lock()
        self._made = False

    @property
    def exists(self) -> bool:
        """Whether anything has been written to it."""
        return self._topics.find(self.name) is not None

    @property
    def partition_count(self) -> int:
        """How many partitions it has, or will have."""
        topic = self._topics.find(self.name)
        return self._partitions_wanted if topic is None else topic.partition_count

    async def ensure(self) -> None:
        """Make the topic unless it is there.

        Raises:
            KafkaStorageError: the disk failed.
        """
        if self._made:
            return
        async with self._making:  # a half-created topic exists, but lacks some of its logs
            if not self.exists:
                await self._topics.create_internal(self.name, self._partitions_wanted)
            self._made = True

    def partition(self, partition: int) -> InternalLog:
        """One partition as the log of a coordinator."""
        return InternalLog(self, partition, self._clock)

    def log(self, partition: int) -> TrustedLog:
        """The log of one partition of the topic, which must exist."""
        return self._topics.internal_log(self.name, partition)


class LocalTicket(NamedTuple):
    """Submitted records of a log that knows offsets at once; implements ``log.Ticket``."""

    log: TrustedLog
    first_offset: int
    end_offset: int

    async def durable(self) -> int:
        """Return the first offset when all is durable. See ``log.Ticket``."""
        await self.log.wait_durable(self.end_offset)
        return self.first_offset


class InternalLog:
    """One partition of an internal topic; implements ``log.CoordinatorLog``."""

    def __init__(self, topic: InternalTopic, partition: int, clock: Clock) -> None:
        self.name = f"{topic.name}-{partition}"
        self._clock = clock
        self._topic = topic
        self._partition = partition

    @property
    def exists(self) -> bool:
        """Whether the topic has been made."""
        return self._topic.exists

    @property
    def start_offset(self) -> int:
        """Where a replay begins."""
        return self._log.log_start_offset

    @property
    def durable_end(self) -> int:
        """The end of what is durable."""
        return self._log.high_watermark

    @property
    def record_count(self) -> int:
        """About how many records a replay passes over."""
        log = self._log
        return log.log_end_offset - log.log_start_offset

    async def ensure(self) -> None:
        """Make the topic unless it is there. Raises KafkaStorageError."""
        await self._topic.ensure()

    def submit(self, records: Sequence[KeyValue]) -> LocalTicket:
        """Write records as one batch, which may exceed the limit for clients. See
        ``log.CoordinatorLog``.
        """
        log = self._log
        if not records:
            return LocalTicket(log, log.log_end_offset, log.log_end_offset)
        batch = encode_batch(records, timestamp_ms=self._clock.wall_ms())
        end = log.append_trusted(batch).last_offset + 1
        return LocalTicket(log, end - len(records), end)

    async def delete_before(self, offset: int) -> int:
        """Move the log start up to ``offset``. See ``log.CoordinatorLog``."""
        return await self._log.delete_records(offset)

    async def replay(self) -> AsyncIterator[LoggedRecord]:
        """Every record in order, once all are durable, without those of aborted transactions.
        Records damaged on disk are logged and left out: one bad sector must not keep a broker from
        its other groups.
        """
        log = self._log
        while log.high_watermark < log.log_end_offset:  # wait for writes in flight
            await log.wait_durable(log.log_end_offset)
        offset = log.log_start_offset
        while offset < log.high_watermark:
            readable = log.after_damage(offset)
            if readable > offset:
                self._report_lost(offset, readable)
                offset = readable
                continue
            try:
                data = (await log.read(offset, READ_BYTES)).data
            except CorruptMessage:
                if log.after_damage(offset) == offset:
                    raise
                continue  # this read has found the damage
            if not data:
                return
            end = end_offset_of(data)
            void = _aborted(log, offset, end, data)
            for at, _, key, value in decode_batch(data):
                if at >= offset and key is not None and at not in void:
                    yield LoggedRecord(at, key, value)
            offset = end

    def leave_out(self, offset: int, error: MalformedMessage) -> None:
        """Log that the record at ``offset`` is malformed; it is left out like a damaged one."""
        logger.error("%s: the record at offset %d is left out: %s", self.name, offset, error)

    @property
    def _log(self) -> TrustedLog:
        return self._topic.log(self._partition)

    def _report_lost(self, first: int, end: int) -> None:
        logger.error(
            "%s: offsets %d to %d are damaged; the group state in them is lost",
            self.name,
            first,
            end - 1,
        )


def _aborted(log: TrustedLog, offset: int, end: int, data: bytes) -> set[int]:
    """The offsets in ``data`` that belong to aborted transactions. There are few or none: only
    offsets of consumer groups are committed in transactions.
    """
    transactions = log.aborted_transactions(offset, min(end, log.last_stable_offset))
    ranges = aborted_ranges(data, transactions) if transactions else ()
    return {at for first, last in ranges for at in range(first, last + 1)}
