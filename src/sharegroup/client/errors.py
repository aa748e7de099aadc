"""Errors that only a client raises; all others are in ``model.errors`` with Kafka's names.

The tree::

    SharegroupError
    ├── BootstrapError        none of the bootstrap servers answered
    ├── IllegalState          a call at the wrong time: a mistake in the calling program
    ├── Wakeup                ``wakeup()`` ended the call
    ├── CorruptRecordBatch    fetched bytes that are damaged; the broker is told to archive them
    │                         (REJECT)
    ├── RecordDeserializationError
    │                         a deserializer failed; the record is released
    ├── NoOffsetForPartition  nothing is committed, and auto_offset_reset is 'none'
    ├── TransactionAborted    the record's transaction was aborted
    ├── HandlerFailed         a pool's handler failed at a record for the last time
    └── BufferExhausted       the producer's buffer stayed full for too long
"""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.model.errors import ErrorSource, SharegroupError
from sharegroup.model.errors import ProducerFenced as ProducerFenced
from sharegroup.model.ids import TopicPartition


class BootstrapError(SharegroupError):
    """None of the bootstrap servers answered; the text names each address, and why it failed."""

    source = ErrorSource.CONNECTION


class IllegalState(SharegroupError):
    """A call at the wrong time (Java: IllegalStateException); the text says what comes first."""


class Wakeup(SharegroupError):
    """``wakeup()`` was called (Java: WakeupException). Nothing is lost: the next call continues."""


class CorruptRecordBatch(SharegroupError):
    """A record batch cannot be read. Its records are rejected, so that they are not delivered again
    and again.

    ``partition`` and ``offset`` (the first of the batch) say where it is, ``reason`` what is wrong.
    If the broker could not read it, ``__cause__`` is the broker's error.
    """

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(f"the record batch at offset {offset} of {partition} is damaged: {reason}")
        self.partition = partition
        self.offset = offset
        self.reason = reason


class HandlerFailed(SharegroupError):
    """A pool's handler has failed at a record for the last time; ``__cause__`` is what it raised.

    ``partition`` and ``offset`` say which record; nothing from there on is committed.
    """

    def __init__(
        self, partition: TopicPartition, offset: int, attempts: int, error: Exception
    ) -> None:
        super().__init__(
            f"the record at offset {offset} of {partition} failed (attempts: {attempts}): {error!r}"
        )
        self.partition = partition
        self.offset = offset


class RecordDeserializationError(SharegroupError):
    """A deserializer raised (Java: RecordDeserializationException); ``__cause__`` is what it
    raised.

    A share consumer's next poll releases the record, unless ``acknowledge_offset`` was called for
    it before. A consumer stays at the record: seek to the offset after it to go on.

    ``partition`` and ``offset`` say where the record is, ``key`` and ``value`` are its bytes, and
    ``origin`` says which of the two failed.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        origin: str,
        key: bytes | None,
        value: bytes | None,
    ) -> None:
        super().__init__(f"the {origin} at offset {offset} of {partition} cannot be deserialized")
        self.partition = partition
        self.offset = offset
        self.origin = origin
        self.key = key
        self.value = value


class NoOffsetForPartition(SharegroupError):
    """The group has committed nothing for these partitions, and ``auto_offset_reset`` is ``none``
    (Java: NoOffsetForPartitionException). ``partitions`` names them: seek in each of them.
    """

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = sorted(partitions)
        names = ", ".join(map(str, self.partitions))
        super().__init__(f"no offset is committed for {names}, and auto_offset_reset is 'none'")


class TransactionAborted(SharegroupError):
    """The record belonged to a transaction that was aborted before it was sent."""


class BufferExhausted(SharegroupError):
    """The producer's buffer was full for ``max_block_ms`` (Java: BufferExhaustedException)."""
