"""The log's interface for everything above it, in three parts; a user names the part that it needs.

:class:`ReadableLog` and :class:`AppendableLog` are what any log can do: one in local segment files
(``storage``), and later one in a Kafka cluster (``upstream``), which awaits that cluster's answers.
:class:`OwnedLog` is what only a log in this process knows at once. :class:`PartitionLog` is all
three. Record batches pass as bytes; no record is decoded here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from sharegroup.model.environment import FileRange
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition


class Repeated(NamedTuple):
    """A record that was not appended, because its message id has been there."""

    record: int
    """Which record of the produced batches it is, from 0."""
    offset: int
    """The first record of the id."""


class Appended(NamedTuple):
    """Where a produced set of batches stands in the log."""

    base_offset: int
    last_offset: int
    append_time_ms: int = -1
    """Wall-clock time stamped on the batches under LogAppendTime, else -1."""

    duplicate: bool = False
    """The batch was there already (idempotent retry); the offsets are from its first append."""

    repeated: tuple[Repeated, ...] = ()
    """The records that were not appended. If no record was appended, ``base_offset`` is the offset
    at which the first record stands already. ``last_offset``: all records up to it must be durable
    before the producer is answered."""

    ids_forgotten: int = 0
    """How many message ids were forgotten early, because the partition has no room for more."""


class StoredBatches(NamedTuple):
    """Whole record batches that lie in a file, and were checked before."""

    range: FileRange
    end_offset: int


class LogOffsets(NamedTuple):
    """The offsets of a log at one moment: ``start`` ≤ ``last_stable`` ≤ ``high_watermark`` ≤
    ``end``. See :class:`ReadableLog`."""

    start: int
    last_stable: int
    high_watermark: int
    end: int


class ReadBatches(NamedTuple):
    """Whole record batches as they lie in the log.

    The first batch may start before the offset asked for.
    """

    data: bytes
    high_watermark: int
    log_start_offset: int
    stored: StoredBatches | None = None
    """Where the batches lie, instead of ``data``; only if the caller takes that."""


class AbortedTransaction(NamedTuple):
    """A producer's transactional batches from ``first_offset`` up to its next abort marker are
    aborted."""

    producer_id: int
    first_offset: int


class DamagedOffsets(NamedTuple):
    """Offsets ``first`` … ``last``, both included, that the log has lost to damage."""

    first: int
    last: int


class ActiveProducer(NamedTuple):
    """An idempotent or transactional producer of a partition; a field is -1 if there is no such
    value."""

    producer_id: int
    epoch: int
    last_sequence: int
    timestamp_ms: int
    """When it wrote last, wall clock."""
    coordinator_epoch: int
    """The epoch of the transaction coordinator that wrote the producer's last marker."""
    transaction_start: int
    """The first offset of its open transaction."""


class ProducerStates(Protocol):
    """What a partition knows of its producers."""

    def active(self) -> list[ActiveProducer]:
        """All producers that have not expired."""
        ...

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has an open transaction with this epoch."""
        ...

    def epoch_of(self, producer_id: int) -> int:
        """The latest epoch of a producer; -1 for one that is not known."""
        ...

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Check that no later epoch of a producer has been here.

        Raises:
            InvalidProducerEpoch: a later epoch has been here.
        """
        ...

    def has_batches(self, producer_id: int) -> bool:
        """Whether batches of a producer's latest epoch are known here."""
        ...

    def is_marked(self, producer_id: int, epoch: int) -> bool:
        """Whether the last transaction of a producer has ended with this epoch or a later one."""
        ...

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, newer: bool = False
    ) -> None:
        """Check a marker before it is appended. ``newer``: its epoch must be above the epoch of the
        producer's records (KIP-890), not only equal.

        Raises:
            InvalidProducerEpoch: a later producer has been here.
            TransactionCoordinatorFenced: a later coordinator has been here.
        """
        ...


class Recompression(NamedTuple):
    """How producers' batches must be compressed before the append (``compression.type``)."""

    codec: int
    """As in a batch's attributes; 0: not compressed."""
    level: int | None
    batch_bytes_max: int
    """A larger batch is refused, however small it could be made."""


class MessageIds(Protocol):
    """The message ids that a partition has had within its topic's window."""

    @property
    def secret(self) -> bytes:
        """By which ids are hashed."""
        ...

    def repeated(self, batches: bytes, base_offset: int) -> tuple[tuple[int, ...], ...]:
        """The index of each record that would not be appended at ``base_offset``, by batch.

        Raises:
            NotEnoughReplicas: another producer has an id of the batch in its open transaction.
        """
        ...


class ServedLog(Protocol):
    """Which log it is, and whether it is in service."""

    topic_partition: TopicPartition
    topic_id: UUID

    @property
    def failure(self) -> KafkaError | None:
        """Why the log is out of service; None when it is not. Every call raises this error then."""
        ...


class ReadableLog(ServedLog, Protocol):
    """One partition's log for readers.

    Offsets: log start ≤ last stable offset ≤ high watermark ≤ log end. The high watermark is the
        end of what readers may see: of the records that are durable under the flush policy. The
        last stable offset is the end of what readers of committed records may see: the first offset
        of a transaction that has not ended, or the high watermark.

    The properties say how far the log is known here, at once: an offset is never past the log's
    own, and never moves back, unless a cluster loses the end of a log. A log in this process knows
    all; a log elsewhere learns by what it is asked, and by itself once :attr:`is_followed`. Who
    must not miss anything awaits :meth:`offsets`.
    """

    on_advance: Callable[[ReadableLog], None] | None
    """Called on the loop's thread when the high watermark that is known here has moved, or will not
    move any more by itself: who waits looks again."""

    @property
    def is_followed(self) -> bool:
        """Whether the log learns of what comes: always in this process; elsewhere from
        :meth:`read` or :meth:`follow` on, until nobody has read or waited for some seconds."""
        ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    async def offsets(self) -> LogOffsets:
        """The offsets as they are now; the properties are at least as high afterwards.

        Raises:
            KafkaError: the log cannot be asked.
        """
        ...

    def follow(self, is_awaited: Callable[[], bool]) -> None:
        """Learn of what comes from now on, at least as long as somebody waits for it. What has come
        before is known after :meth:`offsets`."""
        ...

    async def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        end_offset: int | None = None,
        stored: bool = False,
    ) -> ReadBatches:
        """Whole batches from the one that holds ``offset`` on, up to about ``max_bytes`` (at least
        one batch).

        Nothing at or past ``end_offset`` (default: the high watermark) is returned. ``stored``: the
        caller takes :class:`StoredBatches` too.

        Raises:
            OffsetOutOfRange: ``offset`` is below the log start or past the log end.
            CorruptMessage: ``offset`` is damaged on disk.
            KafkaStorageError: the disk failed.
        """
        ...

    def after_damage(self, offset: int) -> int:
        """``offset``; or, if a damaged range holds it, the first offset after the range. As far as
        reads have found damage: ask after a read has failed."""
        ...

    async def aborted_transactions(
        self, start_offset: int, end_offset: int
    ) -> list[AbortedTransaction]:
        """The aborted transactions with batches at ``start_offset`` … ``end_offset`` (exclusive),
        which lies at or below the last stable offset."""
        ...

    async def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record whose timestamp is ≥ ``timestamp_ms``, or
        None."""
        ...

    async def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp, or None in an empty
        log."""
        ...


class AppendableLog(ServedLog, Protocol):
    """One partition's log for whoever changes it on behalf of a client."""

    @property
    def record_bytes_max(self) -> int:
        """The largest record of a compressed batch, unpacked, in bytes."""
        ...

    @property
    def recompression(self) -> Recompression | None:
        """How batches must be compressed; None: batches stay as they come."""
        ...

    @property
    def ids(self) -> MessageIds | None:
        """The message ids; None: the topic has no window for them."""
        ...

    async def append(self, batches: bytes) -> Appended:
        """Check and append producer batches; return when they are written (not yet durable).

        The batches are visible to readers once :meth:`wait_durable` of their end would return.

        Raises:
            CorruptMessage: a batch's CRC, length or magic is wrong.
            OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState: a rule of idempotent or
                transactional producers is broken.
            MessageTooLarge: a batch is over ``max.message.bytes``.
            KafkaStorageError: the disk failed; the partition is out of service from then on.
        """
        ...

    async def wait_durable(self, end_offset: int) -> None:
        """Return once everything below ``end_offset`` is durable under the flush policy (group
        commit).

        Raises:
            KafkaStorageError: a flush failed; what was not durable may be lost.
        """
        ...

    async def delete_records(self, before_offset: int) -> int:
        """Move the log start up to ``before_offset`` (-1: the high watermark). Returns the new log
        start, which is known here from then on.

        Raises:
            OffsetOutOfRange: ``before_offset`` is past the high watermark.
        """
        ...


class OwnedLog(ServedLog, Protocol):
    """What only a log in this process knows, and at once."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record, durable or not."""
        ...

    @property
    def producer_states(self) -> ProducerStates:
        """What the log knows of its producers."""
        ...

    def damages(self) -> list[DamagedOffsets]:
        """The known damaged ranges between log start and end, ascending. Reading may find
        more."""
        ...


class PartitionLog(ReadableLog, AppendableLog, OwnedLog, Protocol):
    """One partition's log in this process."""


class TrustedLog(PartitionLog, Protocol):
    """A log in this broker, which may write to it unchecked: an internal topic, or a marker in any
    topic. The offsets of an append are known at once. For coordinators only, and they put it behind
    the protocols of ``broker/coordination/log.py``."""

    def append_trusted(self, batches: bytes, *, flush: bool = True) -> Appended:
        """Append batches that this broker has made: no CRC, limit or sequence is checked. They are
        written, not yet durable. Without ``flush`` they become durable with a later append, or when
        somebody waits for them.

        Raises:
            KafkaStorageError: the disk failed.
        """
        ...
