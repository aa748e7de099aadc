"""Internal topics, their partitions as logs of coordinators, and the partitions in which
coordinators end transactions: over logs in this process.

The topic is created with its first record, so that an unused broker has no files for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, NamedTuple

from sharegroup.broker.coordination.log import (
    EndOfTransaction,
    KeyValue,
    LoggedEnd,
    LoggedRecord,
    ProducerEpoch,
)
from sharegroup.broker.topics import Topics
from sharegroup.model.environment import Clock
from sharegroup.model.errors import CorruptMessage, MalformedMessage
from sharegroup.model.log import TrustedLog
from sharegroup.wire.batch import (
    TRANSACTIONAL,
    decode_batch,
    encode_batch,
    end_offset_of,
    parse_headers,
)
from sharegroup.wire.markers import (
    MarkerType,
    decode_marker,
    encode_marker,
    is_control,
    is_transactional,
)

logger = logging.getLogger("sharegroup.broker")

READ_BYTES: Final = 4 << 20
"""Bytes per read at replay: large enough that reads do not dominate its time."""


class InternalTopic:
    """One internal topic of this broker."""

    def __init__(self, name: str, partitions: int, topics: Topics, clock: Clock) -> None:
        self.name = name
        self._partitions_wanted = topics.internal_partitions[name] = partitions
        self._topics = topics
        self._clock = clock
        self._making = asyncio.Lock()
        self._made = False

    @property
    def exists(self) -> bool:
        """Whether the topic has been made."""
        return self._topics.internal(self.name) is not None

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, or will have."""
        topic = self._topics.internal(self.name)
        return self._partitions_wanted if topic is None else topic.partition_count

    async def ensure(self) -> None:
        """Make the topic unless it exists.

        Raises:
            KafkaStorageError: the disk failed.
        """
        if self._made:
            return
        async with self._making:  # while it is being created, it exists but lacks some of its logs
            if not self.exists:
                await self._topics.create_internal(self.name, self._partitions_wanted)
            self._made = True

    async def is_made(self) -> bool:
        """Whether the topic exists. If somebody is making it, waits until that is done: the maker
        came first."""
        if self._making.locked():
            async with self._making:
                pass
        return self.exists

    def partition(self, partition: int) -> InternalLog:
        """One partition as the log of a coordinator."""
        return InternalLog(self, partition, self._clock)

    def log(self, partition: int) -> TrustedLog:
        """The log of one partition of the topic, which must exist."""
        return self._topics.internal_log(self.name, partition)


class LocalTransactionLog:
    """One partition of any topic; implements ``log.TransactionLog``."""

    def __init__(self, log: TrustedLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    def lacks_end(self, end: EndOfTransaction, *, own_epoch: bool) -> bool:
        """See ``log.TransactionLog``."""
        states, (producer_id, epoch) = self._log.producer_states, end.producer
        later = states.epoch_of(producer_id) > epoch
        return not later and not (own_epoch and states.is_marked(producer_id, epoch))

    def check_end(self, end: EndOfTransaction, *, newer: bool) -> None:
        """See ``log.TransactionLog``."""
        states = self._log.producer_states
        states.check_marker(*end.producer, end.coordinator_epoch, newer=newer)

    def submit_end(self, end: EndOfTransaction) -> LocalTicket:
        """Write a control batch. See ``log.TransactionLog``."""
        batch = encode_marker(
            MarkerType.COMMIT if end.committed else MarkerType.ABORT,
            producer_id=end.producer.producer_id,
            producer_epoch=end.producer.epoch,
            timestamp_ms=self._clock.wall_ms(),
            coordinator_epoch=end.coordinator_epoch,
        )
        return _append(self._log, batch)

    def submitted(self) -> LocalTicket:
        """See ``log.TransactionLog``."""
        end_offset = self._log.log_end_offset
        return LocalTicket(self._log, end_offset, end_offset)


class LocalTicket(NamedTuple):
    """Submitted records of a log that knows offsets at once; implements ``log.Ticket``."""

    log: TrustedLog
    first_offset: int
    end_offset: int

    async def durable(self) -> int:
        """Return the first offset when all records are durable. See ``log.Ticket``."""
        await self.log.wait_durable(self.end_offset)
        return self.first_offset


def _append(log: TrustedLog, batch: bytes, *, flush: bool = True) -> LocalTicket:
    appended = log.append_trusted(batch, flush=flush)
    return LocalTicket(log, appended.base_offset, appended.last_offset + 1)


class InternalLog:
    """One partition of an internal topic; implements ``log.CoordinatorLog``."""

    def __init__(self, topic: InternalTopic, partition: int, clock: Clock) -> None:
        self.name = f"{topic.name}-{partition}"
        self._clock = clock
        self._topic = topic
        self._partition = partition
        self.left_out: list[tuple[int, int]] = []
        """The ranges that the last replay could not read: first and last offset of each."""

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
        """The end of the durable records."""
        return self._log.high_watermark

    @property
    def record_count(self) -> int:
        """About how many records a replay passes over."""
        log = self._log
        return log.log_end_offset - log.log_start_offset

    async def ensure(self) -> None:
        """Make the topic unless it exists. Raises KafkaStorageError."""
        await self._topic.ensure()

    async def is_made(self) -> bool:
        """See ``log.CoordinatorLog``."""
        return await self._topic.is_made()

    def submit(
        self,
        records: Sequence[KeyValue],
        producer: ProducerEpoch | None = None,
        *,
        flush: bool = True,
    ) -> LocalTicket:
        """Write records as one batch, which may exceed the limit for clients. See
        ``log.CoordinatorLog``.
        """
        if not records:
            log = self._log
            return LocalTicket(log, log.log_end_offset, log.log_end_offset)
        now_ms = self._clock.wall_ms()
        if producer is None:
            return _append(self._log, encode_batch(records, timestamp_ms=now_ms), flush=flush)
        return _append(
            self._log,
            encode_batch(
                records,
                timestamp_ms=now_ms,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=0,  # as Kafka's coordinator does: it counts no sequence
                attributes=TRANSACTIONAL,
            ),
            flush=flush,
        )

    def submit_end(self, end: EndOfTransaction) -> LocalTicket:
        """Write a control batch. See ``log.CoordinatorLog``."""
        return LocalTransactionLog(self._log, self._clock).submit_end(end)

    def check_producer(self, producer: ProducerEpoch) -> None:
        """See ``log.CoordinatorLog``."""
        self._log.producer_states.check_epoch(*producer)

    async def delete_before(self, offset: int) -> int:
        """Move the log start up to ``offset``. See ``log.CoordinatorLog``."""
        return await self._log.delete_records(offset)

    async def replay(self) -> AsyncIterator[LoggedRecord | LoggedEnd]:
        """Every record and marker in order, once all are durable. Records damaged on disk are
        logged and left out: one bad sector must not keep the broker from serving its other groups.
        """
        log = self._log
        self.left_out.clear()
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
                continue  # this read has found new damage: look again where it ends
            if not data:
                return
            for entry in _entries(data, offset):
                yield entry
            offset = end_offset_of(data)

    async def give_up(self) -> None:
        """No other broker can have the log: its folder is locked."""

    def leave_out(self, offset: int, error: MalformedMessage) -> None:
        """Log that the record at ``offset`` is malformed; it is left out like a damaged one."""
        self.left_out.append((offset, offset))
        logger.error("%s: the record at offset %d is left out: %s", self.name, offset, error)

    @property
    def _log(self) -> TrustedLog:
        return self._topic.log(self._partition)

    def _report_lost(self, first: int, end: int) -> None:
        self.left_out.append((first, end - 1))
        logger.error(
            "%s: offsets %d to %d are damaged; the state in them is lost", self.name, first, end - 1
        )


def _entries(data: bytes, from_offset: int) -> Iterator[LoggedRecord | LoggedEnd]:
    """The records and markers of whole batches, from ``from_offset`` on."""
    view = memoryview(data)
    position = 0
    for header in parse_headers(data):
        batch = view[position : position + header.length]
        position += header.length
        producer = None
        if is_transactional(header):
            producer = ProducerEpoch(header.producer_id, header.producer_epoch)
        if is_control(header):
            marker = decode_marker(batch)
            if marker.type in (MarkerType.ABORT, MarkerType.COMMIT) and producer is not None:
                committed = marker.type == MarkerType.COMMIT
                end = EndOfTransaction(producer, committed, marker.coordinator_epoch)
                if header.base_offset >= from_offset:
                    yield LoggedEnd(header.base_offset, end)
            continue
        for at, _, key, value in decode_batch(batch):
            if at >= from_offset and key is not None:
                yield LoggedRecord(at, key, value, producer)
