"""The log's interface for everything above it: append, read, offsets.

:class:`PartitionLog` is implemented by ``storage`` (local segment files) and, later, by
``upstream`` (a Kafka cluster). Record batches pass as bytes; no record is decoded here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from sharegroup.model.environment import FileRange
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition


class Appended(NamedTuple):
    """Where a produced set of batches stands in the log."""

    base_offset: int
    last_offset: int
    append_time_ms: int = -1
    """Wall-clock time stamped on the batches under LogAppendTime, else -1."""

    duplicate: bool = False
    """The batch was there already (idempotent retry); the offsets are from its first append."""


class StoredBatches(NamedTuple):
    """Whole record batches that lie in a file, and were checked before."""

    range: FileRange
    end_offset: int


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


class PartitionLog(Protocol):
    """One partition's log.

    Offsets: ``log_start_offset`` ≤ ``last_stable_offset`` ≤ ``high_watermark`` ≤
        ``log_end_offset``. The high watermark is the end of what readers may see: of the records
        that are durable under the flush policy. The last stable offset is the end of what readers
        of committed records may see: the first offset of a transaction that has not ended, or the
        high watermark.
    """

    topic_partition: TopicPartition
    topic_id: UUID
    leader_epoch: int
    on_advance: Callable[[PartitionLog], None] | None
    """Called on the loop's thread when the high watermark has moved."""

    @property
    def producer_states(self) -> ProducerStates:
        """What the log knows of its producers."""
        ...

    @property
    def failure(self) -> KafkaError | None:
        """Why the log is out of service; None when it is not. Every call raises this error then."""
        ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def record_bytes_max(self) -> int:
        """The largest record of a compressed batch, unpacked, in bytes."""
        ...

    @property
    def recompression(self) -> Recompression | None:
        """How batches must be compressed; None: batches stay as they come."""
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
        """``offset``; or, if a range that is damaged on disk holds it, the first offset after the
        range."""
        ...

    def damages(self) -> list[DamagedOffsets]:
        """The known damaged ranges between log start and end, ascending. Reading may find
        more."""
        ...

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
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

    async def delete_records(self, before_offset: int) -> int:
        """Move the log start up to ``before_offset`` (-1: the high watermark). Returns the new log
        start."""
        ...


class TrustedLog(PartitionLog, Protocol):
    """A log in this broker, which may write to it unchecked: an internal topic, or a marker in any
    topic. The offsets of an append are known at once."""

    def append_trusted(self, batches: bytes, *, flush: bool = True) -> Appended:
        """Append batches that this broker has made: no CRC, limit or sequence is checked. They are
        written, not yet durable. Without ``flush`` they become durable with a later append, or when
        somebody waits for them.

        Raises:
            KafkaStorageError: the disk failed.
        """
        ...
