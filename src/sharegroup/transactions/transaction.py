"""One transactional id: who owns it, and what its transaction does (Kafka class
TransactionMetadata).

A :class:`Transaction` never changes. Each step makes a new one, which is also the record of that
step in ``__transaction_state``.

Kafka has two further states, Dead and PrepareEpochFence. It needs them between a decision and its
durable record. Here a decision holds at once, so these two states only have numbers.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from sharegroup.model.ids import TopicPartition

EPOCH_MAX: Final = 2**15 - 1
NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NEVER: Final = -1
"""No transaction has begun."""

EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which each transaction has an epoch of its own (KIP-890)."""


class TransactionStage(IntEnum):
    """The states, numbered as in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name in requests, for example ``CompleteCommit``."""
        return self.name.title().replace("_", "")


PREPARED: Final = frozenset({TransactionStage.PREPARE_COMMIT, TransactionStage.PREPARE_ABORT})
"""The outcome is decided; markers are still missing."""

AT_REST: Final = frozenset(
    {
        TransactionStage.EMPTY,
        TransactionStage.COMPLETE_COMMIT,
        TransactionStage.COMPLETE_ABORT,
    }
)
"""There is no transaction, or it is over."""

LABELS: Final = {state.label: state for state in TransactionStage}


class IdAndEpoch(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transactional id. Times are wall-clock milliseconds."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionStage = TransactionStage.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NEVER
    last_epoch: int = NO_EPOCH
    """The epoch before the last bump; a retry of that bump still has it. It is not in the log."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after this transaction, if the epochs of ``producer_id`` are used up."""
    client_version: int = 0
    """The transaction version of whoever took the last step."""
    overdue: bool = False
    """The time-out has aborted the transaction; or may have, if it was aborted before the log was
    loaded. This is not in the log."""

    @property
    def prepared(self) -> bool:
        """Whether the outcome is decided and markers may be missing."""
        return self.state in PREPARED

    @property
    def commits(self) -> bool:
        """Whether the outcome is a commit."""
        return self.state in (TransactionStage.PREPARE_COMMIT, TransactionStage.COMPLETE_COMMIT)

    @property
    def exhausted(self) -> bool:
        """Whether the last epoch that a client may have is in use; one more is left for fencing."""
        return epochs_used_up(self.epoch)

    @property
    def successor(self) -> IdAndEpoch:
        """The producer that may begin the next transaction."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return IdAndEpoch(self.next_producer_id, 0)
        return IdAndEpoch(self.producer_id, self.epoch)

    def is_same(self, other: Transaction | None) -> bool:
        """Whether ``other`` equals this transaction in all fields that are in the log."""
        if other is None:
            return False
        return replace(other, last_epoch=self.last_epoch, overdue=self.overdue) == self

    def with_partitions(
        self, partitions: Set[TopicPartition], version: int, now_ms: int
    ) -> Transaction:
        """Begin a transaction, or add partitions to it."""
        return replace(
            self,
            state=TransactionStage.ONGOING,
            partitions=self.partitions | partitions,
            started_ms=now_ms if self.state in AT_REST else self.started_ms,
            updated_ms=now_ms,
            client_version=version,
        )

    def decided(
        self,
        *,
        commit: bool,
        version: int,
        now_ms: int,
        next_producer_id: int = NO_PRODUCER_ID,
        overdue: bool = False,
    ) -> Transaction:
        """Decide the outcome. From transaction version 2 on this raises the epoch, unless it is the
        largest epoch already: no client has that epoch, but a log may."""
        bump = version >= EPOCH_PER_TRANSACTION
        return replace(
            self,
            state=TransactionStage.PREPARE_COMMIT if commit else TransactionStage.PREPARE_ABORT,
            epoch=min(self.epoch + 1, EPOCH_MAX) if bump else self.epoch,
            last_epoch=self.epoch if bump else self.last_epoch,
            next_producer_id=next_producer_id,
            started_ms=now_ms if self.state in AT_REST else self.started_ms,
            updated_ms=now_ms,
            client_version=version,
            overdue=overdue,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are durable."""
        producer_id, epoch = self.successor
        commits = self.commits
        return replace(
            self,
            state=(
                TransactionStage.COMPLETE_COMMIT if commits else TransactionStage.COMPLETE_ABORT
            ),
            producer_id=producer_id,
            epoch=epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    def taken(
        self, owner: IdAndEpoch, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """Give the id to a producer that begins anew."""
        return replace(
            self,
            state=TransactionStage.EMPTY,
            producer_id=owner.producer_id,
            epoch=owner.epoch,
            last_epoch=last_epoch,
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            started_ms=NEVER,
            updated_ms=now_ms,
            client_version=0,
            overdue=False,
        )

    def check_invariants(self) -> None:
        """Assert what holds in each state."""
        assert self.producer_id >= 0, self
        assert 0 <= self.epoch <= EPOCH_MAX, self
        if self.state in AT_REST:
            assert not self.partitions, self
        else:
            assert self.started_ms >= 0, self
        if self.next_producer_id != NO_PRODUCER_ID:
            assert self.prepared, self
            assert self.epoch == EPOCH_MAX, self
        assert self.state not in (TransactionStage.DEAD, TransactionStage.PREPARE_EPOCH_FENCE), self


class Expired(NamedTuple):
    """The record of a transactional id that nobody has used for a long time."""

    transactional_id: str


def epochs_used_up(epoch: int) -> bool:
    """Whether a producer with this epoch needs a new id before its next epoch."""
    return epoch >= EPOCH_MAX - 1
