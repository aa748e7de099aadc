"""Ranges of offsets with more values than their ends, such as a decision or a delivery count: the
arithmetic of ``cooperative/intervals.py``, with these values kept. Both ends are inclusive, as
everywhere. The ranges of an argument ascend and do not overlap, if nothing else is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from sharegroup.cooperative.intervals import Intervals, minus, normal, overlaps
from sharegroup.model.offsets import OffsetRange

R = TypeVar("R", bound=tuple[Any, ...])


def merged(ranges: Iterable[tuple[int, int]]) -> list[OffsetRange]:
    """The same offsets in as few ranges as possible; ``ranges`` may have any order."""
    return list(map(OffsetRange._make, normal(ranges)))


def without(ranges: Sequence[R], cut: Iterable[tuple[Any, ...]]) -> list[R]:
    """``ranges`` without the offsets of ``cut``, which may have any order; each piece keeps the
    other values of its range."""
    cuts = _offsets(cut) if ranges else ()
    if not cuts:
        return list(ranges)
    left = minus([(one[0], one[1]) for one in ranges], cuts)
    return [_part(one, first, last) for first, last, one, _ in overlaps(ranges, left)]


def common(ranges: Sequence[R], other: Iterable[tuple[Any, ...]]) -> list[R]:
    """The offsets that ``ranges`` and ``other`` share, with the other values of ``ranges``;
    ``other`` may have any order."""
    others = _offsets(other) if ranges else ()
    return [_part(one, first, last) for first, last, one, _ in overlaps(ranges, others)]


def _offsets(ranges: Iterable[tuple[Any, ...]]) -> Intervals:
    return normal([(one[0], one[1]) for one in ranges])


def _part(one: R, first: int, last: int) -> R:
    if first == one[0] and last == one[1]:
        return one
    return tuple.__new__(type(one), (first, last, *one[2:]))


class Decision(NamedTuple):
    """Records ``first`` … ``last``: the AckType, and when it takes effect (milliseconds from the
    end of the batch; only for release and renew)."""

    first: int
    last: int
    type: int
    delay_ms: int = 0


class Reason(NamedTuple):
    """Why the records ``first`` … ``last`` are rejected, or released."""

    first: int
    last: int
    text: str
