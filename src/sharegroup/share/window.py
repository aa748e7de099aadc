"""The in-flight window of one share partition: every offset from ``start`` up to ``end``.

One flat structure holds all of it (docs/decisions.md, 2): stretches of offsets, with one status
for all or one byte for each (:mod:`sharegroup.share.stretches`). Invariants, asserted by
:meth:`Window.check_invariants`:

* stretches adjoin and tile ``start`` … ``end - 1`` exactly;
* two neighbours with one status each have different statuses, and neighbours that are short enough
  for one stretch are one stretch;
* the first offset is not terminal (finished offsets leave the window at its head);
* an offset has a lock exactly while ACQUIRED or DELAYED, and a lock counts exactly the offsets
  that point to it;
* every offset held by a lock lies in a range that the lock remembers;
* ``counts`` is the number of offsets per state;
* delivery batches tile at least the window; no delivery count is above ``deliveries_max``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import dropwhile, pairwise

from sharegroup.model.share_state import StateBatch, StateRow
from sharegroup.share.batches import DeliveryBatches
from sharegroup.share.locks import NOBODY, Lock, LockTable
from sharegroup.share.offset_codes import run_count
from sharegroup.share.record_state import AVAILABLE, TERMINAL, RecordState
from sharegroup.share.spans import Span
from sharegroup.share.stretches import (
    ALL,
    LONG,
    STATUSES_MAX,
    Stretch,
    clipped,
    joined,
    spans_of,
    woven,
)

_STATES = max(RecordState) + 1
_PERSISTED = frozenset({AVAILABLE, *TERMINAL})
_IS_AVAILABLE = [state == AVAILABLE for state in range(_STATES)]
_IS_UNFINISHED = [state not in TERMINAL for state in range(_STATES)]
_LOCKED = (RecordState.ACQUIRED, RecordState.DELAYED)
_ACKNOWLEDGED, _ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


class Window:
    """Stretches between the share partition's start offset (SPSO) and its end, exclusive."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.counts = [0] * _STATES
        self.locks = LockTable()
        self.batches = DeliveryBatches(start)
        self.deliveries_max = 0
        """Upper bound of the delivery counts in the window; 0 again when the window is empty."""
        self._stretches: list[Stretch] = []
        self._firsts: list[int] = []

    @classmethod
    def restored(cls, start: int, batches: Iterable[StateRow]) -> Window:
        """The window that durable ``batches`` describe (Kafka class SharePartition, load).

        No member has acknowledged offsets between batches: they become AVAILABLE with count 0.

        Raises:
            ValueError: a batch is below ``start``, empty, out of order, or in no durable state.
        """
        if start < 0:
            raise ValueError(f"start offset {start} is negative")
        window = cls(start)
        spans: list[Span] = []
        end = start
        for batch in batches:
            first, last, state, count = batch
            if first < end or last < first:
                raise ValueError(f"{StateBatch(*batch)} is out of order behind offset {end}")
            if state not in _PERSISTED or count < 0:
                raise ValueError(f"{StateBatch(*batch)} has a state that is never durable")
            if first > end:
                spans.append(Span(end, first - 1, AVAILABLE, 0, None))
            kept = 0 if state in TERMINAL else count
            spans.append(Span(first, last, RecordState(state), kept, None))
            end = last + 1
        if spans:
            window.extend(spans)
            window.pass_terminal()
        return window

    @property
    def finished(self) -> int:
        """Offsets in a terminal state."""
        return self.counts[_ACKNOWLEDGED] + self.counts[_ARCHIVED]

    def __iter__(self) -> Iterator[Span]:
        return spans_of(self._stretches)

    def __len__(self) -> int:
        """How many stretches there are."""
        return len(self._stretches)

    def span_count(self) -> int:
        """How many spans there are."""
        count = 0
        before: Stretch | None = None
        for stretch in self._stretches:
            count += 1 if stretch.uniform else run_count(stretch.codes)
            if before is not None and _meet(before, stretch):
                count -= 1
            before = stretch
        return count

    def iterate_from(self, offset: int) -> Iterator[Span]:
        """Whole spans, beginning with the span that holds ``offset``, which must be inside."""
        at = self._locate(offset)
        while at and _meet(self._stretches[at - 1], self._stretches[at]):
            at -= 1
        return dropwhile(lambda span: span.last < offset, spans_of(self._stretches[at:]))

    def pieces(self, first: int, last: int) -> list[Stretch]:
        """The stretches in ``first`` … ``last``, which must be inside the window. The first and the
        last stretch are cut to this range."""
        at = self._locate(first)
        if last <= self._stretches[at].last:
            return [clipped(self._stretches[at], first, last)]
        pieces = self._stretches[at : self._locate(last) + 1]
        pieces[0] = clipped(pieces[0], first, last)
        pieces[-1] = clipped(pieces[-1], first, last)
        return pieces

    def replace(self, old: list[Stretch], new: list[Stretch]) -> None:
        """Put the stretches ``new`` in place of ``old``, which :meth:`pieces` returned. Both cover
        the same offsets."""
        # The new ones first: a lock that holds nothing is dropped, and both may have the same lock.
        self._count(new)
        self._discount(old)
        self._splice(old[0].first, old[-1].last, new)

    def extend(self, new: list[Span]) -> None:
        """Append ``new`` spans; the first must begin at the window's end.

        Each becomes a delivery batch, unless ``batches`` covers its offsets already.
        """
        for span in new:
            self.batches.add(span.first, span.last)
        stretches = list(woven(new))
        self._count(stretches)
        around = joined([*self._stretches[-1:], *stretches])
        self._stretches[-1:] = around
        self._firsts[-1:] = [one.first for one in around]
        self.end = new[-1].last + 1

    def move_start(self, offset: int) -> None:
        """Forget everything below ``offset``. An ``offset`` past the end leaves an empty window."""
        if offset <= self.start:
            return
        if self.start < self.end:
            gone = self.pieces(self.start, min(offset, self.end) - 1)
            self._discount(gone)
            self._splice(self.start, gone[-1].last, [])
        self.start = offset
        self.end = max(self.end, offset)
        self.batches.move_start(offset)
        if self.start == self.end:
            self.deliveries_max = 0

    def pass_terminal(self) -> bool:
        """Move the start over finished offsets at the head; returns whether it moved."""
        unfinished: int | None = None
        for stretch in self._stretches:
            unfinished = stretch.first_where(_IS_UNFINISHED)
            if unfinished is not None:
                break
        end = self.end if unfinished is None else unfinished
        if end == self.start:
            return False
        self.move_start(end)
        return True

    def first_available_in(self, first: int, last: int) -> int | None:
        """The lowest AVAILABLE offset in ``first`` … ``last``, or None. The window is not empty."""
        if first < self.start:
            first = self.start
        if first > last:
            return None
        for at in range(self._locate(first), len(self._stretches)):
            stretch = self._stretches[at]
            if stretch.first > last:
                return None
            found = stretch.first_where(_IS_AVAILABLE, first)
            if found is not None:
                return found if found <= last else None
        return None

    def _locate(self, offset: int) -> int:
        """The index of the stretch that holds ``offset``."""
        return bisect_right(self._firsts, offset) - 1

    def _splice(self, first: int, last: int, new: list[Stretch]) -> None:
        """Put the stretches ``new`` in place of offsets ``first`` … ``last``, and join them with
        the stretches on both sides."""
        stretches = self._stretches
        at = end = self._locate(first)
        left = right = stretches[at]
        if last > left.last:
            end = self._locate(last)
            right = stretches[end]
        around = stretches[at - 1 : at] if at else []
        if left.first < first:
            around.append(clipped(left, left.first, first - 1))
        around += new
        if right.last > last:
            around.append(clipped(right, last + 1, right.last))
        around += stretches[end + 1 : end + 2]
        around = joined(around)
        behind = end + 2
        at = max(at - 1, 0)
        stretches[at:behind] = around
        self._firsts[at:behind] = [one.first for one in around]

    def _count(self, stretches: list[Stretch]) -> None:
        counts = self.counts
        for stretch in stretches:
            for (state, count, lock), size in stretch.sizes():
                counts[state] += size
                if count > self.deliveries_max and size:
                    self.deliveries_max = count
                if lock is not None:
                    lock.held += size

    def _discount(self, stretches: list[Stretch]) -> None:
        counts = self.counts
        for stretch in stretches:
            for (state, _, lock), size in stretch.sizes():
                counts[state] -= size
                # A stretch may list a status that no offset has: that lock may be gone already.
                if lock is not None and size:
                    lock.held -= size
                    if not lock.held:
                        self.locks.drop(lock)

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists; costs a walk over the window."""
        offset, counts = self.start, [0] * len(self.counts)
        held: Counter[Lock] = Counter()
        self._check_stretches()
        before: Span | None = None
        for span in self:
            assert span.first == offset, f"{span} does not begin at {offset}"
            assert span.last >= span.first, f"{span} is empty"
            assert before is None or before[2:] != span[2:], f"{before} and {span} are equal"
            assert before is not None or span.state not in TERMINAL, f"terminal head {span}"
            assert (span.lock is not None) == (span.state in _LOCKED), f"lock: {span}"
            delayed = span.lock is not None and span.lock.member_id == NOBODY
            assert delayed == (span.state is RecordState.DELAYED), f"lock of nobody: {span}"
            assert span.state not in TERMINAL or span.delivery_count <= 0, f"count: {span}"
            counts[span.state] += span.size
            assert span.delivery_count <= self.deliveries_max, f"more than the maximum: {span}"
            if span.lock is not None:
                held[span.lock] += span.size
            offset, before = span.last + 1, span
        assert offset == self.end, f"spans end at {offset}, the window at {self.end}"
        assert counts == self.counts, f"{counts} counted, {self.counts} kept"
        assert held == Counter({lock: lock.held for lock in self.locks}), "locks miscounted"
        self.batches.check_invariants(self.start, self.end)
        for lock in held:
            check_covered([span for span in self if span.lock is lock], lock.ranges)

    def _check_stretches(self) -> None:
        assert self._firsts == [one.first for one in self._stretches], "index is wrong"
        assert self.span_count() == len(list(self)), "spans miscounted"
        offset = self.start
        for stretch in self._stretches:
            assert stretch.first == offset, f"{stretch} does not begin at {offset}"
            offset = stretch.last + 1
            if stretch.uniform:
                assert stretch.codes == ALL, f"{stretch} has another code"
                assert len(stretch.statuses) == 1, f"{stretch} has more statuses"
            else:
                assert len(stretch.codes) == offset - stretch.first, f"{stretch} misses codes"
                assert len(set(stretch.codes)) > 1, f"{stretch} has one status"
                assert len(set(stretch.statuses)) == len(stretch.statuses), "a status twice"
                assert len(stretch.codes) <= LONG, f"{stretch} is too long"
                assert len(stretch.statuses) <= STATUSES_MAX, f"{stretch} has too many statuses"
        for left, right in pairwise(self._stretches):
            assert joined([left, right]) == [left, right], f"{left} and {right} are not joined"


def _meet(left: Stretch, right: Stretch) -> bool:
    """Whether ``left`` ends with the status with which ``right`` begins: one span covers both."""
    return left.statuses[left.codes[-1]] == right.statuses[right.codes[0]]


def check_covered(spans: list[Span], ranges: list[tuple[int, int]]) -> None:
    """Assert that every offset of ``spans`` is in one of the remembered ``ranges``."""
    remembered = iter(sorted(ranges))
    first, last = next(remembered, (0, -1))
    for span in spans:
        offset = span.first
        while offset <= span.last:
            while last < offset:
                first, last = next(remembered, (offset + 1, offset))
                assert first <= offset or last > offset, f"{span} is not remembered"
            assert first <= offset, f"{span} is not remembered"
            offset = last + 1
