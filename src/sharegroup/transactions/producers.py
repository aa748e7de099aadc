"""The state of idempotent producers in one partition (Kafka classes ProducerStateManager,
ProducerAppendInfo).

A producer numbers its records per partition; sequences wrap from 2^31-1 to 0. For each producer id
we keep the epoch and the last five batches, as many as Kafka's producers keep in flight.

Invariants (:meth:`ProducerTable.check_invariants`):

* a producer has an epoch ≥ 0 and at most five batches (none after a marker of a newer epoch);
* its batches follow each other: sequences without a gap, offsets strictly ascending.

A producer id that the partition does not know may begin at any sequence: its state may have been
lost to retention. A producer id of which only a marker is known begins at 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from sharegroup.model import errors
from sharegroup.model.log import ActiveProducer
from sharegroup.transactions.ongoing import EndedTransaction, OngoingTransactions

BATCHES_KEPT: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
NONE: Final = -1
"""A snapshot's "there is none": no batch, no coordinator, no open transaction."""


class ProducedBatch(NamedTuple):
    """One appended batch: its first and last sequence and offset, all inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


class ProducerEntry(NamedTuple):
    """A producer as a snapshot keeps it.

    ``last_sequence`` and ``last_offset`` are -1 when it has no batch.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int = NONE
    """The epoch of the transaction coordinator that wrote the last marker."""
    transaction_start: int = NONE
    """The first offset of its open transaction."""
    earlier: tuple[ProducedBatch, ...] = ()
    """Its batches before the last one, oldest first."""


class Duplicate(NamedTuple):
    """The batch is in the log already, at these offsets."""

    first_offset: int
    last_offset: int


@dataclass(slots=True)
class _Producer:
    epoch: int
    last_ms: int
    coordinator_epoch: int = NONE
    batches: list[ProducedBatch] = field(default_factory=list)


def sequence_after(sequence: int, steps: int = 1) -> int:
    """The sequence ``steps`` records later (Kafka class DefaultRecordBatch, incrementSequence)."""
    return (sequence + steps) & SEQUENCE_MAX


def sequence_before(sequence: int, steps: int) -> int:
    """The sequence ``steps`` records earlier."""
    return (sequence - steps) & SEQUENCE_MAX


class ProducerTable:
    """The producers of one partition, and their ``transactions``."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self.transactions = OngoingTransactions()

    def __len__(self) -> int:
        return len(self._producers)

    def epoch_of(self, producer_id: int) -> int:
        """The latest epoch of a producer; -1 for one that is not known."""
        producer = self._producers.get(producer_id)
        return NONE if producer is None else producer.epoch

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Check that no later epoch of a producer has been here. See ``model.log.ProducerStates``.

        Raises:
            InvalidProducerEpoch: a later epoch has been here.
        """
        if epoch < (newest := self.epoch_of(producer_id)):
            raise errors.InvalidProducerEpoch(
                f"Epoch of producer {producer_id} is {epoch}, "
                f"which is smaller than the last seen epoch {newest}"
            )

    def check(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        *,
        transactional: bool = False,
    ) -> Duplicate | None:
        """Check a batch before it is appended; changes nothing. None: append it, then call
        :meth:`applied`.

        Raises:
            InvalidProducerEpoch: the epoch is older than the newest one seen.
            OutOfOrderSequenceNumber: a gap, a repetition older than the last five batches, or a
                first batch of an epoch that does not begin at 0 (also after a marker of the epoch).
            InvalidTxnState: not ``transactional``, and the producer has an open transaction.
        """
        duplicate = self._check_sequence(producer_id, epoch, base_sequence, last_offset_delta)
        if duplicate is None and not transactional and producer_id in self.transactions:
            raise errors.InvalidTxnState(
                f"Expected transactional write from producer {producer_id}"
            )
        return duplicate

    def _check_sequence(
        self, producer_id: int, epoch: int, base_sequence: int, last_offset_delta: int
    ) -> Duplicate | None:
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        self.check_epoch(producer_id, epoch)
        if epoch != producer.epoch:
            _check_first_sequence(producer, producer_id, epoch, base_sequence)
            return None
        last_sequence = sequence_after(base_sequence, last_offset_delta)
        for batch in producer.batches:
            if batch.first_sequence == base_sequence and batch.last_sequence == last_sequence:
                return Duplicate(batch.first_offset, batch.last_offset)
        current = producer.batches[-1].last_sequence if producer.batches else NONE
        if base_sequence != sequence_after(current):
            raise errors.OutOfOrderSequenceNumber(
                f"Out of order sequence number for producer {producer_id}: {base_sequence} "
                f"(incoming seq. number), {current} (current end sequence number)"
            )
        return None

    def applied(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        first_offset: int,
        last_offset: int,
        now_ms: int,
        *,
        transactional: bool = False,
    ) -> None:
        """The batch is in the log at these offsets; also used to replay a log. ``now_ms`` is
        wall-clock time.
        """
        if transactional:
            self.transactions.appended(producer_id, first_offset)
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = self._producers[producer_id] = _Producer(epoch, now_ms)
        last_sequence = sequence_after(base_sequence, last_offset - first_offset)
        producer.last_ms = now_ms
        batches = producer.batches
        if batches and base_sequence != sequence_after(batches[-1].last_sequence):
            batches.clear()  # a replay over a hole: what came before can no longer be repeated
        batches.append(ProducedBatch(base_sequence, last_sequence, first_offset, last_offset))
        del batches[:-BATCHES_KEPT]

    def marked(
        self, producer_id: int, epoch: int, marker_offset: int, coordinator_epoch: int, now_ms: int
    ) -> EndedTransaction | None:
        """A transaction marker is in the log. Returns the transaction it ends, if one was open.

        A marker has no sequence. A marker of a newer epoch (KIP-890 raises it with each
        transaction) restarts the producer's sequences.
        """
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = self._producers[producer_id] = _Producer(epoch, now_ms)
        producer.last_ms = now_ms
        producer.coordinator_epoch = coordinator_epoch
        return self.transactions.ended(producer_id, marker_offset)

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, newer: bool = False
    ) -> None:
        """Check a marker before it is appended. See ``model.log.ProducerStates``."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        self.check_epoch(producer_id, epoch)
        if newer and epoch == producer.epoch:
            raise errors.InvalidProducerEpoch(
                f"Epoch of producer {producer_id} in a marker is {epoch}, "
                f"the last seen epoch is {producer.epoch}"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise errors.TransactionCoordinatorFenced(
                f"Invalid coordinator epoch for producer {producer_id}: {coordinator_epoch} "
                f"(requested), {producer.coordinator_epoch} (current)"
            )

    def has_batches(self, producer_id: int) -> bool:
        """Whether batches of a producer's latest epoch are known here."""
        producer = self._producers.get(producer_id)
        return producer is not None and bool(producer.batches)

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has an open transaction with this epoch."""
        if producer_id not in self.transactions:
            return False
        return self._producers[producer_id].epoch == epoch

    def is_marked(self, producer_id: int, epoch: int) -> bool:
        """Whether the last transaction of a producer has ended with this epoch or a later one."""
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.epoch >= epoch
            and producer_id not in self.transactions
        )

    def active(self) -> list[ActiveProducer]:
        """All producers. See ``model.log.ProducerStates``."""
        return [
            ActiveProducer(
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.timestamp_ms,
                entry.coordinator_epoch,
                entry.transaction_start,
            )
            for entry in self.snapshot()
        ]

    def expire(self, before_ms: int) -> int:
        """Forget producers whose last batch is older than ``before_ms`` (wall clock) and that have
        no open transaction; returns how many were forgotten.

        Kafka's ``producer.id.expiration.ms``, a day, bounds the table.
        """
        old = [
            key
            for key, producer in self._producers.items()
            if producer.last_ms < before_ms and key not in self.transactions
        ]
        for producer_id in old:
            del self._producers[producer_id]
        return len(old)

    def snapshot(self) -> tuple[ProducerEntry, ...]:
        """All producers, ready to be written."""
        return tuple(self._entry(key, producer) for key, producer in self._producers.items())

    def _entry(self, producer_id: int, producer: _Producer) -> ProducerEntry:
        start = self.transactions.first_offset(producer_id)
        last = producer.batches[-1] if producer.batches else ProducedBatch(NONE, NONE, NONE, NONE)
        return ProducerEntry(
            producer_id,
            producer.epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.first_offset,
            producer.last_ms,
            producer.coordinator_epoch,
            NONE if start is None else start,
            tuple(producer.batches[:-1]),
        )

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Begin again from a snapshot."""
        self._producers = {}
        starts = {}
        for entry in entries:
            first_sequence = sequence_before(entry.last_sequence, entry.offset_delta)
            first_offset = entry.last_offset - entry.offset_delta
            batch = ProducedBatch(
                first_sequence, entry.last_sequence, first_offset, entry.last_offset
            )
            self._producers[entry.producer_id] = _Producer(
                entry.epoch,
                entry.timestamp_ms,
                entry.coordinator_epoch,
                [] if entry.last_sequence == NONE else [*entry.earlier, batch],
            )
            if entry.transaction_start != NONE:
                starts[entry.producer_id] = entry.transaction_start
        self.transactions.load(starts)

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        for producer in self._producers.values():
            assert producer.epoch >= 0
            assert len(producer.batches) <= BATCHES_KEPT
            for earlier, later in pairwise(producer.batches):
                assert later.first_sequence == sequence_after(earlier.last_sequence)
                assert later.first_offset > earlier.last_offset
        self.transactions.check_invariants()


def _check_first_sequence(
    producer: _Producer, producer_id: int, epoch: int, base_sequence: int
) -> None:
    if base_sequence != 0:
        raise errors.OutOfOrderSequenceNumber(
            f"Invalid sequence number for new epoch of producer {producer_id}: {epoch} "
            f"(request epoch), {base_sequence} (seq. number), "
            f"{producer.epoch} (current producer epoch)"
        )
