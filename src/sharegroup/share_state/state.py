"""One share partition's durable state in memory (Kafka class ShareGroupOffset).

Merging is deferred: a write adds its batches to a pile. The pile is merged when it outgrows the
merged batches, or when the whole state is needed. So the amortised cost of a write depends on its
own batches only. The order of merging does not matter (:mod:`sharegroup.share_state.merge`), so
nothing is lost by waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.cooperative.intervals import overlaps
from sharegroup.model.ack_type import AckType
from sharegroup.model.dead_records import Cause, DeadKey, DeadRecords
from sharegroup.model.pending_acks import EndRules, PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share_state.merge import merged, still_delayed
from sharegroup.share_state.records import ShareSnapshot, ShareUpdate

NO_EPOCH: Final = -1
"""Leader or state epoch in a request: do not check. Stored leader epoch: no leader has read the
state yet."""
UNINITIALIZED_OFFSET: Final = -1
"""Start offset: the leader chooses it by ``share.auto.offset.reset``."""
UNKNOWN_COUNT: Final = -1
ARCHIVING: Final = 3
"""Kafka's state of a record that failed for good and has no dead letter yet (KIP-1191). Here such a
record is archived, and is kept as dead records beside the states: so it does not hold back the
start offset."""
_AVAILABLE: Final = 0
_ACKNOWLEDGED: Final = 2
_ARCHIVED: Final = 4
_PILE_MIN: Final = 256


def without_archiving(
    batches: tuple[StateRow, ...],
) -> tuple[tuple[StateRow, ...], tuple[DeadRecords, ...]]:
    """``batches`` with archived records in place of archiving ones, and these as dead records."""
    found = [batch for batch in batches if batch[2] == ARCHIVING]
    if not found:
        return batches, ()
    archived = tuple(
        (first, last, _ARCHIVED if state == ARCHIVING else state, count)
        for first, last, state, count in batches
    )
    dead = (DeadRecords(first, last, count, Cause.UNKNOWN, "") for first, last, _, count in found)
    return archived, tuple(dead)


def finished(one: PendingAck) -> StateRow:
    """The state of its records once its transaction is committed."""
    state = _ARCHIVED if one.kind == AckType.REJECT else _ACKNOWLEDGED
    return one.first, one.last, state, one.delivery_count


def letter(one: PendingAck, failed_ms: int, cause: Cause = Cause.REJECTED) -> DeadRecords:
    """Records that fail for good with the end of their transaction: those that it rejects, once it
    is committed."""
    first, last, count = one.first, one.last, one.delivery_count
    return DeadRecords(first, last, count, cause, one.member_id, one.reason, failed_ms)


class DurableState:
    """The state after a snapshot and the updates since."""

    __slots__ = (
        "batches",
        "create_ms",
        "dead",
        "dead_weight",
        "delayed",
        "delivery_complete_count",
        "leader_epoch",
        "pending",
        "pile",
        "snapshot_epoch",
        "snapshot_offset",
        "start_offset",
        "state_epoch",
        "updates",
        "write_ms",
    )

    def __init__(self, snapshot: ShareSnapshot) -> None:
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.delivery_complete_count = snapshot.delivery_complete_count
        self.create_ms = snapshot.create_timestamp_ms
        self.write_ms = snapshot.write_timestamp_ms
        self.batches = list(snapshot.state_batches)
        self.pile: list[StateRow] = []
        self.delayed = list(snapshot.delayed)
        """Records that rest, the newest first; rows that are out of date go with the next merge."""
        self.dead = {one.key: one for one in snapshot.dead}
        """Records that failed for good, and have no dead letter yet."""
        self.dead_weight = sum(one.weight for one in snapshot.dead)
        """About how many bytes they take in a snapshot."""
        self.pending = list(snapshot.pending)
        """Acknowledgements of open transactions, in the order in which they came."""
        self.updates = 0
        self.snapshot_offset: int | None = None
        """Where in the log the latest durable snapshot is; None while there is none."""

    @property
    def cold(self) -> bool:
        """Whether the last snapshot was made because of age, not because of writes."""
        return self.create_ms != self.write_ms

    def add(
        self,
        start_offset: int,
        complete: int,
        batches: tuple[StateRow, ...],
        delayed: tuple[DelayedRow, ...] = (),
    ) -> None:
        """Apply a write; -1 leaves the stored start offset or count. :meth:`merge_when_due` must
        follow, after each write or after many.

        Neither offset nor count moves back (KAFKA-20694). A count belongs to the window at its
        start offset: with a start below the stored one the count is outdated and ignored, and a new
        start without a count makes the count unknown.
        """
        if start_offset > self.start_offset:
            self.start_offset = start_offset
            self.delivery_complete_count = complete
        elif start_offset in (self.start_offset, UNINITIALIZED_OFFSET):
            self.delivery_complete_count = max(self.delivery_complete_count, complete)
        self.pile += batches
        if delayed:
            self.delayed[:0] = delayed
        self.updates += 1

    def bury(self, buried: Iterable[DeadKey], dead: Iterable[DeadRecords]) -> None:
        """Forget the records ``buried``, whose dead letters are written, then take in ``dead``."""
        for key in buried:
            gone = self.dead.pop(key, None)
            self.dead_weight -= gone.weight if gone is not None else 0
        for one in dead:
            before = self.dead.get(one.key)
            self.dead[one.key] = one
            self.dead_weight += one.weight - (before.weight if before is not None else 0)

    def end_pending(self, ended: Iterable[TransactionMark], pending: Iterable[PendingAck]) -> None:
        """Forget the acknowledgements of ``ended`` transactions, then take in ``pending``."""
        for mark in ended:
            self.pending = [one for one in self.pending if not mark.ends(one.transaction)]
        self.pending += pending

    def given_back(
        self, ended: Iterable[PendingAck], rules: EndRules, now_ms: int
    ) -> tuple[list[StateRow], list[DelayedRow], list[DeadRecords]]:
        """What to write of the records of ``ended`` acknowledgements that an abort gives back.
        Those that may be delivered again at once are stored as they must be already."""
        self.merge()
        rows: list[StateRow] = []
        delayed: list[DelayedRow] = []
        dead: list[DeadRecords] = []
        for first, last, one, (_, _, state, count) in overlaps(sorted(ended), self.batches):
            if (state, count) != (_AVAILABLE, one.delivery_count):
                continue  # finished since
            if count < rules.delivery_count_limit:
                if rules.due_ms is not None:
                    rows.append((first, last, _AVAILABLE, count))
                    delayed.append(DelayedRow(first, last, count, rules.due_ms(count, first)))
            elif not rules.blocks:
                rows.append((first, last, _ARCHIVED, count))
                dead.append(letter(one._replace(first=first, last=last), now_ms, Cause.RELEASED))
        return rows, delayed, dead if rules.dead_letters else []

    def merge_when_due(self) -> None:
        """:meth:`merge` when the pile has outgrown the merged batches."""
        if len(self.pile) > len(self.batches) + _PILE_MIN:
            self.merge()

    def merge(self) -> None:
        """Merge the pile into the batches, and drop offsets below the start."""
        if self.pile or (self.batches and self.batches[0][0] < self.start_offset):
            self.batches = merged(self.batches + self.pile, self.start_offset)
            self.pile = []
            if self.delayed:
                self.delayed = still_delayed(self.delayed, self.batches)

    def forget(self, ranges: Iterable[StateRow]) -> None:
        """Drop the stored state of these offsets. A snapshot must follow: no update can do this."""
        self.merge()
        for first, last, _, _ in ranges:
            kept: list[StateRow] = []
            for at, until, state, count in self.batches:
                if at < first:
                    kept.append((at, min(until, first - 1), state, count))
                if until > last:
                    kept.append((max(at, last + 1), until, state, count))
            self.batches = kept

    def snapshot(self, now_ms: int, *, cold: bool = False) -> ShareSnapshot:
        """The whole state as the next snapshot; a cold one keeps the create time of the last."""
        self.merge()
        return ShareSnapshot(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp_ms=self.create_ms if cold else now_ms,
            write_timestamp_ms=now_ms,
            state_batches=tuple(self.batches),
            delayed=tuple(self.delayed),
            dead=tuple(self.dead.values()),
            pending=tuple(one for one in self.pending if one.last >= self.start_offset),
        )

    def update(
        self,
        batches: tuple[StateRow, ...] = (),
        delayed: tuple[DelayedRow, ...] = (),
        dead: tuple[DeadRecords, ...] = (),
        buried: tuple[DeadKey, ...] = (),
        pending: tuple[PendingAck, ...] = (),
        ended: tuple[TransactionMark, ...] = (),
    ) -> ShareUpdate:
        """An amendment that carries ``batches``, dead records, and what transactions hold."""
        return ShareUpdate(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=batches,
            delayed=delayed,
            dead=dead,
            buried=buried,
            pending=pending,
            ended=ended,
        )

    def check_invariants(self) -> None:
        """Assert that merged batches are sorted, disjoint ranges."""
        previous_last = -1
        for first, last, _, _ in self.batches:
            assert previous_last < first <= last, f"{first}-{last} out of order"
            previous_last = last
        assert self.start_offset >= UNINITIALIZED_OFFSET, "start below -1"
        assert self.dead_weight == sum(one.weight for one in self.dead.values()), "dead miscounted"
        assert all(key == one.key for key, one in self.dead.items()), "dead under another name"
