"""Ranges of offsets with a decision each, and arithmetic on ascending, disjoint ranges. Both ends
are inclusive, as everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from sharegroup.model.offsets import OffsetRange

R = TypeVar("R", bound=tuple[int, ...])
S = TypeVar("S", bound=tuple[int, ...])


def merged(ranges: Iterable[tuple[int, int]]) -> list[OffsetRange]:
    """The same offsets in as few ranges as possible."""
    result: list[OffsetRange] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1].last + 1:
            result[-1] = OffsetRange(result[-1].first, max(result[-1].last, last))
        else:
            result.append(OffsetRange(first, last))
    return result


def without(ranges: Sequence[R], cut: Iterable[tuple[int, ...]]) -> list[R]:
    """``ranges`` without the offsets of ``cut``; each piece keeps the other values of its
    range."""
    cuts = merged((one[0], one[1]) for one in cut) if ranges else []
    if not cuts:
        return list(ranges)
    left: list[R] = []
    at, count = 0, len(cuts)
    for one in ranges:
        position, last = one[0], one[1]
        while at < count and cuts[at][1] < position:
            at += 1
        i = at
        while i < count and cuts[i][0] <= last:
            if cuts[i][0] > position:
                left.append(_part(one, position, cuts[i][0] - 1))
            position = cuts[i][1] + 1
            i += 1
        if position <= last:
            left.append(_part(one, position, last))
    return left


def common(ranges: Sequence[R], other: Iterable[tuple[int, ...]]) -> list[R]:
    """The offsets that ``ranges`` and ``other`` share, with the other values of ``ranges``."""
    others = merged((one[0], one[1]) for one in other) if ranges else []
    found: list[R] = []
    at, count = 0, len(others)
    for one in ranges:
        first, last = one[0], one[1]
        while at < count and others[at][1] < first:
            at += 1
        i = at
        while i < count and others[i][0] <= last:
            found.append(_part(one, max(first, others[i][0]), min(last, others[i][1])))
            i += 1
    return found


def pairs(ranges: Sequence[R], other: Sequence[S]) -> Iterator[tuple[int, int, R, S]]:
    """Each overlap of a range with a range of ``other``: first, last, and the two ranges."""
    i = j = 0
    while i < len(ranges) and j < len(other):
        one, two = ranges[i], other[j]
        first, last = max(one[0], two[0]), min(one[1], two[1])
        if first <= last:
            yield first, last, one, two
        if one[1] <= two[1]:
            i += 1
        else:
            j += 1


def _part(one: R, first: int, last: int) -> R:
    if first == one[0] and last == one[1]:
        return one
    return tuple.__new__(type(one), (first, last, *one[2:]))


def size(ranges: Iterable[tuple[int, ...]]) -> int:
    """How many offsets the ranges have."""
    return sum(one[1] - one[0] + 1 for one in ranges)


class Decision(NamedTuple):
    """Records ``first`` … ``last``: the AckType, and when it takes effect (milliseconds from the
    end of the batch; only for release and renew)."""

    first: int
    last: int
    type: int
    delay_ms: int = 0
