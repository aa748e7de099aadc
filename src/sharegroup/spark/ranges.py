"""Arithmetic on ascending, disjoint ranges of offsets; both ends included, as everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from sharegroup.model.offsets import OffsetRange

R = TypeVar("R", bound=tuple[int, int, int])


def merged(ranges: Iterable[tuple[int, int]]) -> list[OffsetRange]:
    """The same offsets in as few ranges as possible."""
    result: list[OffsetRange] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1].last + 1:
            result[-1] = OffsetRange(result[-1].first, max(result[-1].last, last))
        else:
            result.append(OffsetRange(first, last))
    return result


def without(ranges: Iterable[R], cut: Iterable[tuple[int, int]]) -> list[R]:
    """What is left of ``ranges`` without the offsets of ``cut``; the third value goes with every
    piece."""
    cuts = merged(cut)
    return [piece for one in ranges for piece in _left(one, cuts)]


def common(ranges: Iterable[R], other: Iterable[tuple[int, int]]) -> list[R]:
    """The offsets of ``ranges`` that ``other`` has as well; the third value is that of
    ``ranges``."""
    others = merged(other)
    return [
        one._replace(first=max(one[0], first), last=min(one[1], last))  # type: ignore[attr-defined]
        for one in ranges
        for first, last in others
        if first <= one[1] and last >= one[0]
    ]


def _left(one: R, cuts: list[OffsetRange]) -> Iterator[R]:
    position = one[0]
    for first, last in cuts:
        if last < position:
            continue
        if first > one[1]:
            break
        if first > position:
            yield one._replace(first=position, last=first - 1)  # type: ignore[attr-defined]
        position = last + 1
    if position <= one[1]:
        yield one._replace(first=position)  # type: ignore[attr-defined]


def size(ranges: Iterable[tuple[int, ...]]) -> int:
    """How many offsets there are."""
    return sum(one[1] - one[0] + 1 for one in ranges)
