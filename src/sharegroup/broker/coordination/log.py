"""The logs of coordinators: their own, which are partitions of internal topics, and the partitions
in which they end transactions. Only here is a log written without checks.

``internal_topic`` implements all of it over logs that know offsets at once (``TrustedLog``). A log
in another cluster would know them only when it answers, so these protocols give offsets only once
the records are durable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeAlias

from sharegroup.model import errors
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.batch import Value

KeyValue: TypeAlias = tuple[bytes, Value | None]
"""A record to write; the value is None for a tombstone."""


class ProducerEpoch(NamedTuple):
    """One epoch of a transactional producer."""

    producer_id: int
    epoch: int


class EndOfTransaction(NamedTuple):
    """How a producer's transaction ended."""

    producer: ProducerEpoch
    committed: bool
    coordinator_epoch: int = 0
    """The epoch of the transaction coordinator."""


class LoggedRecord(NamedTuple):
    """A record of the log."""

    offset: int
    key: bytes
    value: bytes | None
    producer: ProducerEpoch | None = None
    """The producer whose transaction the record belongs to; None outside transactions."""


class LoggedEnd(NamedTuple):
    """A marker of the log: it ends the producer's transaction."""

    offset: int
    end: EndOfTransaction


class Ticket(Protocol):
    """Submitted records that may not be durable yet."""

    async def durable(self) -> int:
        """Wait until these records and all submitted before them are durable.

        Returns the offset of the first of these records. A ticket without records returns an
        offset above all records submitted before it, and not above any record submitted later.

        Raises:
            KafkaStorageError: the records will never be durable.
        """
        ...


class TransactionLog(Protocol):
    """One partition of any topic, for whoever ends transactions there."""

    def lacks_end(self, end: EndOfTransaction, *, own_epoch: bool) -> bool:
        """Whether the marker has to be written. Not if the partition knows a later epoch of the
        producer; nor, if the transaction has an epoch of its own (``own_epoch``), if the partition
        knows that this one or a later one has ended."""
        ...

    def check_end(self, end: EndOfTransaction, *, newer: bool) -> None:
        """Check a marker made by hand. ``newer``: its epoch must be above the epoch of the
        producer's records (KIP-890), not only equal.

        Raises:
            InvalidProducerEpoch: a later producer has been here.
            TransactionCoordinatorFenced: a later coordinator has been here.
        """
        ...

    def submit_end(self, end: EndOfTransaction) -> Ticket:
        """Append the marker of a transaction.

        Raises:
            KafkaStorageError: it was not written.
        """
        ...

    def submitted(self) -> Ticket:
        """A ticket for all that was appended until now."""
        ...


class CoordinatorLog(Protocol):
    """One partition of an internal topic."""

    @property
    def name(self) -> str:
        """Topic and partition, for messages."""
        ...

    @property
    def exists(self) -> bool:
        """Whether the topic has been made."""
        ...

    @property
    def start_offset(self) -> int:
        """Where a replay begins."""
        ...

    @property
    def durable_end(self) -> int:
        """The end offset of the records known to be durable."""
        ...

    @property
    def record_count(self) -> int:
        """The approximate number of records that a replay reads."""
        ...

    async def ensure(self) -> None:
        """Make the topic unless it exists; :meth:`submit` needs it.

        Raises:
            KafkaStorageError: the disk failed.
        """
        ...

    async def is_made(self) -> bool:
        """Whether the topic exists. If somebody is making it, waits until that is done."""
        ...

    def submit(
        self,
        records: Sequence[KeyValue],
        producer: ProducerEpoch | None = None,
        *,
        flush: bool = True,
    ) -> Ticket:
        """Append records after all records submitted before, as part of the transaction of
        ``producer`` if there is one. If a ticket fails, all later tickets fail until the next
        :meth:`replay`: no record may follow a missing one. Without ``flush`` the records become
        durable with later ones, or when a ticket is waited for.

        Raises:
            KafkaStorageError: no record was written.
        """
        ...

    def submit_end(self, end: EndOfTransaction) -> Ticket:
        """Append the marker of a transaction, as :meth:`submit` appends records."""
        ...

    def check_producer(self, producer: ProducerEpoch) -> None:
        """Check that no later epoch of a producer has written to this log.

        Raises:
            InvalidProducerEpoch: a later epoch has written to it.
        """
        ...

    def replay(self) -> AsyncIterator[LoggedRecord | LoggedEnd]:
        """Every readable record and marker in order; damaged ones are left out. Includes submitted
        records that are not yet durable, and records of transactions that were aborted or have not
        ended.

        Raises:
            KafkaStorageError: the log cannot be read, or holds records that will never be durable.
        """
        ...

    async def delete_before(self, offset: int) -> int:
        """Delete the durable records below ``offset``; returns the new start offset.

        Raises:
            KafkaStorageError: the disk failed.
        """
        ...

    def leave_out(self, offset: int, error: MalformedMessage) -> None:
        """Log that the record at ``offset`` is malformed; it is left out like a damaged one."""
        ...

    async def give_up(self) -> None:
        """Let another broker have the log: all that was submitted is durable, or never will be.
        Nothing is submitted until the next :meth:`replay`. A log in a data folder has one broker.
        """
        ...


class InternalPartition(CoordinatorLog, Protocol):
    """A log that is one partition, and can tell which offsets are lost in it."""

    @property
    def left_out(self) -> Sequence[tuple[int, int]]:
        """The ranges that the last replay could not read: first and last offset of each."""
        ...


class CoordinatorTopic(Protocol):
    """One internal topic; its partitions are logs of coordinators."""

    @property
    def exists(self) -> bool:
        """Whether the topic has been made."""
        ...

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, or will have."""
        ...

    async def ensure(self) -> None:
        """Make the topic unless it exists.

        Raises:
            KafkaStorageError: the disk failed.
        """
        ...

    def partition(self, partition: int) -> InternalPartition:
        """One partition as the log of a coordinator."""
        ...


@contextmanager
def unavailable() -> Iterator[None]:
    """Turn storage errors into CoordinatorNotAvailable: clients retry after this error, but give up
    at a storage error."""
    try:
        yield
    except errors.KafkaStorageError as error:
        raise errors.CoordinatorNotAvailable(str(error)) from error
