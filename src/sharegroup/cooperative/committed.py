"""The offsets that one group has committed in one partition: a stable offset, and ranges after it
(KIP-X, "Individual Commit").

The stable offset is Kafka's committed offset: the first offset that is not committed. The draft
names the last committed offset instead; its stable 40 is 41 here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from sharegroup.cooperative.intervals import Interval, Intervals, normal


class Committing(NamedTuple):
    """What a commit changes on disk."""

    stable: int | None
    """The new stable offset; None: it did not move."""
    deleted: tuple[Interval, ...]
    """Ranges that get a null record."""
    written: tuple[Interval, ...]
    """Ranges that get a record."""
    duplicates: int
    """How many of the offsets were committed before."""


NOTHING = Committing(None, (), (), 0)


class CommittedRanges:
    """The stable offset and the ranges after it.

    A commit costs the logarithm of the number of ranges, and one step for each range that it
    merges.
    """

    def __init__(self, stable: int = 0, ranges: Iterable[Interval] = ()) -> None:
        self.stable = stable
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.commit(ranges)

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self._firsts)

    @property
    def ranges(self) -> Intervals:
        """The committed ranges after the stable offset, both ends inclusive."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    def growth(self, intervals: Iterable[Interval]) -> int:
        """By how much a commit would change the number of ranges, without doing it."""
        trial = CommittedRanges(self.stable)
        trial._firsts, trial._lasts = self._firsts.copy(), self._lasts.copy()
        trial.commit(intervals)
        return len(trial) - len(self)

    def commit(self, intervals: Iterable[Interval]) -> Committing:
        """Add ranges. Neighbours are merged; a range that touches the stable offset moves it.

        Offsets below the stable offset, and offsets that are committed already, change nothing.
        """
        deleted: set[Interval] = set()
        written: set[Interval] = set()
        duplicates = 0
        stable = self.stable
        for first, last in normal(intervals):
            duplicates += max(0, min(last, self.stable - 1) - first + 1)
            first = max(first, self.stable)
            if last < first:
                continue
            merged, gone, known = self._merge(first, last)
            duplicates += known
            for each in gone:
                # A range of this very commit has no record yet, so it needs no null record.
                written.discard(each) if each in written else deleted.add(each)
            if merged[0] == self.stable:
                self.stable = merged[1] + 1
            elif merged in deleted:
                deleted.remove(merged)
                self._insert(merged)
            else:
                written.add(merged)
                self._insert(merged)
        moved = None if self.stable == stable else self.stable
        return Committing(moved, tuple(sorted(deleted)), tuple(sorted(written)), duplicates)

    def advance(self, stable: int) -> Intervals:
        """Let all offsets below ``stable`` count as committed. Returns the ranges that the stable
        offset has passed or joined by this."""
        end = bisect_left(self._lasts, stable)
        if end < len(self) and self._firsts[end] <= stable:
            stable = self._lasts[end] + 1
            end += 1
        gone = self.ranges[:end]
        del self._firsts[:end], self._lasts[:end]
        self.stable = max(self.stable, stable)
        return gone

    def reset(self, stable: int) -> Committing:
        """Commit as Kafka does: all offsets below ``stable`` count as committed, no others do."""
        gone = self.ranges
        self._firsts, self._lasts = [], []
        moved = None if stable == self.stable else stable
        self.stable = stable
        return Committing(moved, gone, (), 0)

    def uncommitted(self, first: int, last: int) -> Intervals:
        """The offsets from ``first`` to ``last`` that are not committed (gap amending)."""
        found: list[Interval] = []
        at = max(first, self.stable)
        i = bisect_left(self._lasts, at)
        while at <= last and i < len(self._firsts) and self._firsts[i] <= last:
            if at < self._firsts[i]:
                found.append((at, self._firsts[i] - 1))
            at = self._lasts[i] + 1
            i += 1
        if at <= last:
            found.append((at, last))
        return tuple(found)

    def check_invariants(self) -> None:
        """Ranges ascend with gaps between them, and the first begins after the stable offset.

        Raises:
            AssertionError: one of these does not hold.
        """
        before = self.stable - 1
        for first, last in self.ranges:
            if not before + 1 < first <= last:
                raise AssertionError(f"stable {self.stable}, ranges {self.ranges}")
            before = last

    def _merge(self, first: int, last: int) -> tuple[Interval, list[Interval], int]:
        """Take out the ranges that ``first`` … ``last`` overlaps or touches. Returns the merged
        range, the ranges taken out, and how many offsets of ``first`` … ``last`` they held."""
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        gone = list(zip(self._firsts[begin:end], self._lasts[begin:end], strict=True))
        known = sum(min(last, b) - max(first, a) + 1 for a, b in gone if a <= last and b >= first)
        del self._firsts[begin:end], self._lasts[begin:end]
        if gone:
            first, last = min(first, gone[0][0]), max(last, gone[-1][1])
        return (first, last), gone, known

    def _insert(self, interval: Interval) -> None:
        at = bisect_left(self._firsts, interval[0])
        self._firsts.insert(at, interval[0])
        self._lasts.insert(at, interval[1])
