"""Sets of whole numbers as sorted intervals, both ends inclusive: hash ranges and offset ranges.

An interval set is a tuple of ``(first, last)`` that ascend, do not overlap and do not touch.
Arguments of :func:`minus`, :func:`overlaps` and :func:`size` may touch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

Interval = tuple[int, int]
Intervals = tuple[Interval, ...]

R = TypeVar("R", bound=tuple[Any, ...])
S = TypeVar("S", bound=tuple[Any, ...])


def normal(intervals: Iterable[Interval]) -> Intervals:
    """Any intervals as an interval set.

    Raises:
        ValueError: an interval ends before it begins.
    """
    found: list[Interval] = []
    for first, last in sorted(intervals):
        if last < first:
            raise ValueError(f"an interval from {first} to {last}")
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def holds(intervals: Intervals, number: int) -> bool:
    """Whether a number is in the set; in the logarithm of its size."""
    at = bisect_right(intervals, number, key=_first) - 1
    return at >= 0 and number <= intervals[at][1]


def _first(interval: Interval) -> int:
    return interval[0]


def union(one: Intervals, other: Intervals) -> Intervals:
    """The numbers in either set."""
    return normal((*one, *other))


def common(one: Intervals, other: Intervals) -> Intervals:
    """The numbers in both sets."""
    found: list[Interval] = []
    i = j = 0
    while i < len(one) and j < len(other):
        first, last = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if first <= last:
            found.append((first, last))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def minus(one: Iterable[Interval], other: Sequence[Interval]) -> Intervals:
    """The numbers in ``one`` that are not in ``other``."""
    found: list[Interval] = []
    j = 0
    for first, last in one:
        while j < len(other) and other[j][1] < first:
            j += 1
        at, k = first, j
        while k < len(other) and other[k][0] <= last:
            if at < other[k][0]:
                found.append((at, other[k][0] - 1))
            at = other[k][1] + 1
            k += 1
        if at <= last:
            found.append((at, last))
    return tuple(found)


def overlaps(one: Sequence[R], other: Sequence[S]) -> Iterator[tuple[int, int, R, S]]:
    """Each overlap of two ranges, which may carry more values than their ends: its first and last
    number, and the two ranges."""
    i = j = 0
    while i < len(one) and j < len(other):
        mine, others = one[i], other[j]
        first, last = max(mine[0], others[0]), min(mine[1], others[1])
        if first <= last:
            yield first, last, mine, others
        if mine[1] <= others[1]:
            i += 1
        else:
            j += 1


def size(intervals: Iterable[tuple[int, ...]]) -> int:
    """How many numbers the intervals have."""
    return sum(one[1] - one[0] + 1 for one in intervals)
