"""What an operator decides about single records, whoever holds them: accept, release, archive,
extend.

A decision is about all records of a range that are not finished: available, resting, blocked, or
held by members. The verbs are an acknowledgement's: GAP, ACCEPT, RELEASE, REJECT, RENEW.

* ACCEPT and REJECT finish the records, in any order. Rejected records become dead letters.
* GAP purges them: they are finished, like rejected records, and become no dead letters.
* RELEASE lets the records be delivered at once: it takes them from their holders, and ends their
  rest, also before the time in their header. It never archives: a record at the delivery limit is
  delivered once more, so its delivery count is set to one below the limit. Records that anybody may
  get already stay as they are.
* RENEW lets the holders keep the records until a given time, if that is later.

Records that were taken from a member so are remembered (:class:`TakenByHand`): its answer for them
is late, and does not spoil its other answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sharegroup.cooperative.intervals import Interval, common, minus, normal
from sharegroup.model.limits import TAKEN_RANGES_MAX
from sharegroup.model.share_state import DelayedRow
from sharegroup.share.acknowledge import SILENT, AckBatch, Answer
from sharegroup.share.applying import TYPE_BITS, AnsweredPiece, codes_of, types_of
from sharegroup.share.archived import ArchivedRange, Reason
from sharegroup.share.locks import NOBODY
from sharegroup.share.offset_codes import distinct
from sharegroup.share.record_state import (
    ACQUIRED,
    AVAILABLE,
    DELAYED,
    RELEASE,
    RENEW,
    TERMINAL,
    Verb,
)
from sharegroup.share.spans import Status
from sharegroup.share.state_changes import StateChange
from sharegroup.share.stretches import Stretch, recoded
from sharegroup.share.window import Window

FINISHING: Final = frozenset({Verb.GAP, Verb.ACCEPT, Verb.REJECT})
"""Decisions by which records are finished."""
VERBS: Final = FINISHING | {Verb.RELEASE, Verb.RENEW}
"""What can be decided."""


class Decided(NamedTuple):
    """What a decision has done."""

    change: StateChange | None
    """To be made durable before it is answered; None: nothing need be written."""
    records: int
    """Records that it concerned."""
    held: int
    """Of these, how many members held."""
    end: int
    """One past the last offset that was looked at: very large ranges are decided in parts."""


NOTHING: Final = Decided(None, 0, 0, 0)


class Hand:
    """One decision about records, as the orders of a share partition apply it.

    Args:
        limit: the group's delivery limit.
        now_ms: released records do not rest any longer than this.
        until_ms: under RENEW, how long the holders may keep the records at least.
        scheduled: records that were never delivered may not be due, though they do not rest yet:
            RELEASE concerns them.
    """

    def __init__(
        self, verb: Verb, limit: int, now_ms: int, until_ms: int, *, scheduled: bool = False
    ) -> None:
        self.verb = verb
        self.scheduled = scheduled
        self.limit = limit
        self.now_ms = now_ms
        self.until_ms = until_ms
        self.records = 0
        self.held = 0
        self.lowers = False
        """Delivery counts may become lower than they are in durable state."""
        self.taken: list[tuple[str, int, int]] = []
        """What was taken from its holder: the member, the first and the last offset."""
        self.purged: list[ArchivedRange] = []
        """What was given up without a dead letter."""
        self._rested: list[DelayedRow] = []

    def concerns(self, status: Status) -> bool:
        """Whether the decision changes records of this status. What a transaction holds stays: its
        results become visible with it, whatever an operator says."""
        if status.lock is not None and status.lock.in_transaction:
            return False
        if self.verb is RENEW:
            return status.state is ACQUIRED
        if self.verb is RELEASE and status.state is AVAILABLE:
            return self._is_kept_back(status.delivery_count)
        return status.state not in TERMINAL

    def _is_kept_back(self, delivery_count: int) -> bool:
        """Whether a record may be kept back that does not rest: blocked, or not due."""
        return delivery_count >= self.limit or (self.scheduled and not delivery_count)

    def look(self, pieces: Sequence[Stretch]) -> None:
        """Count the records of ``pieces`` that the decision changes, and note their holders. Call
        it before they are changed."""
        for piece in pieces:
            for status, size in piece.sizes():
                if size and self.concerns(status):
                    self.records += size
                    self.held += size if status.state is ACQUIRED else 0
                    self.lowers |= self.verb is RELEASE and status.delivery_count >= self.limit
            if self.verb is not RENEW:
                self._note(piece)

    def _note(self, piece: Stretch) -> None:
        for first, last, state, count, lock in piece.spans():
            if lock is not None and lock.in_transaction:
                continue
            if lock is not None and lock.member_id != NOBODY:
                self.taken.append((lock.member_id, first, last))
            if self.verb is Verb.GAP and state not in TERMINAL:
                self.purged.append(ArchivedRange(first, last, Reason.PURGED, count))
            rested = state is DELAYED or (state not in TERMINAL and self._is_kept_back(count))
            if self.verb is RELEASE and rested:
                # Durable state may have a rest for this delivery count. The newest row of a record
                # holds: by this one the rest is over.
                self._ends_rest(first, last, self._count(count))

    def _ends_rest(self, first: int, last: int, delivery_count: int) -> None:
        rested = self._rested
        if rested and (rested[-1].last + 1, rested[-1].delivery_count) == (first, delivery_count):
            first = rested.pop().first
        rested.append(DelayedRow(first, last, delivery_count, self.now_ms))

    def answered(self, pieces: Sequence[Stretch]) -> list[AnsweredPiece]:
        """The decision about whole ``pieces``, as :func:`~sharegroup.share.applying.apply` takes
        it."""
        return [
            AnsweredPiece(piece, piece.codes, {code: self._meant(one) for code, one in piece.met()})
            for piece in pieces
        ]

    def released(self, pieces: Sequence[Stretch], answer: Answer) -> list[AnsweredPiece]:
        """The decision RELEASE about those offsets of ``pieces`` that ``answer`` names. Under
        ACQUIRE in its types are records that go back uncharged with an earlier one of their key."""
        found = []
        for piece in pieces:
            codes = codes_of(piece, types_of(answer, piece))
            met: dict[int, tuple[Status, Verb | None]] = {}
            for code in distinct(codes):
                kind, status = code & SILENT, piece.statuses[code >> TYPE_BITS]
                if kind == RELEASE:
                    met[code] = self._meant(status)
                elif kind == SILENT:
                    met[code] = status, None
                else:
                    count = self._count(status.delivery_count - 1)
                    met[code] = status._replace(delivery_count=count), RELEASE
            found.append(AnsweredPiece(piece, codes, met))
        return found

    def _meant(self, status: Status) -> tuple[Status, Verb | None]:
        if not self.concerns(status):
            return status, None
        if self.verb is RELEASE:
            status = status._replace(delivery_count=self._count(status.delivery_count))
        return status, self.verb

    def _count(self, delivery_count: int) -> int:
        return min(delivery_count, self.limit - 1)

    def extend(self, window: Window, pieces: list[Stretch]) -> None:
        """RENEW: nothing of it is durable, as with a member's."""
        new: list[Stretch] = []
        for piece in pieces:
            status_of: dict[int, Status] = {}
            for code, status in piece.met():
                lock = status.lock
                if status.state is ACQUIRED and lock and lock.deadline_ms < self.until_ms:
                    longer = window.locks.take(lock.member_id, self.until_ms)
                    longer.add_range(piece.first, piece.last)
                    status = status._replace(lock=longer)
                status_of[code] = status
            new += recoded(piece.first, piece.last, piece.codes, status_of)
        window.replace(pieces, new)

    def done(self, change: StateChange | None, end: int) -> Decided:
        """The outcome; ``change``: of what was applied."""
        if change is not None and self.verb is RELEASE:
            change = change._replace(lowers=self.lowers, delayed=tuple(self._rested))
        return Decided(change, self.records, self.held, end)


class TakenByHand:
    """Records that an operator took from their holders, until the holders have answered them.

    Only hints: what is forgotten here is refused as any other answer for a record that its member
    does not hold.
    """

    def __init__(self) -> None:
        self._of: dict[str, tuple[Interval, ...]] = {}
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, taken: Sequence[tuple[str, int, int]]) -> None:
        """Remember members with the ranges that were taken from them. With more than
        TAKEN_RANGES_MAX ranges, members that were added first are forgotten."""
        for member_id in dict.fromkeys(one[0] for one in taken):
            own = [(first, last) for member, first, last in taken if member == member_id]
            before = self._of.pop(member_id, ())
            self._keep(member_id, normal((*before, *own))[-TAKEN_RANGES_MAX:], len(before))
        while self._size > TAKEN_RANGES_MAX:
            self.forget(next(iter(self._of)))

    def _keep(self, member_id: str, ranges: tuple[Interval, ...], before: int) -> None:
        self._size += len(ranges) - before
        if ranges:
            self._of[member_id] = ranges

    def forget(self, member_id: str) -> None:
        """Forget a member: it has gone."""
        self._size -= len(self._of.pop(member_id, ()))

    def late(
        self, member_id: str, batches: Sequence[AckBatch], window: Window
    ) -> tuple[Sequence[AckBatch], int]:
        """``batches`` of the member without the records that were taken from it, and the number of
        these records. Records that it has got again since are its own."""
        ranges = self._of.get(member_id)
        if ranges is None or not all(map(_is_well_formed, batches)):
            return batches, 0
        ranges = minus(ranges, held_by(window, member_id, ranges))
        named = normal((first, last) for first, last, _ in batches)
        answered = common(ranges, named)
        before = len(self._of.pop(member_id))
        self._keep(member_id, minus(ranges, answered), before)
        if not answered:
            return batches, 0
        kept: list[AckBatch] = []
        for first, last, types in batches:
            for at, until in minus([(first, last)], answered):
                own = types if len(types) == 1 else types[at - first : until - first + 1]
                kept.append((at, until, own))
        return kept, sum(last - first + 1 for first, last in answered)


def _is_well_formed(batch: AckBatch) -> bool:
    first, last, types = batch
    return 0 <= first <= last and len(types) in (1, last - first + 1)


def held_by(window: Window, member_id: str, ranges: Sequence[Interval]) -> tuple[Interval, ...]:
    """What the member holds in ``ranges``."""
    held: list[Interval] = []
    for at, until in ranges:
        first, last = max(at, window.start), min(until, window.end - 1)
        for piece in window.pieces(first, last) if first <= last else ():
            held += [
                (span.first, span.last)
                for span in piece.spans()
                if span.lock is not None and span.lock.member_id == member_id
            ]
    return normal(held)
