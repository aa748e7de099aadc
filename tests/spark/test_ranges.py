"""Range arithmetic against sets of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.cooperative.intervals import size
from sharegroup.spark.ranges import common, merged, without
from sharegroup.spark.slices import Acquired

bounds = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1]))


@st.composite
def disjoint(draw: st.DrawFn) -> list[Acquired]:
    """Ascending, disjoint ranges, each with a count of its own."""
    ranges, position = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=8)):
        first = position + gap
        ranges.append(Acquired(first, first + length - 1, draw(st.integers(1, 5))))
        position = first + length
    return ranges


def numbers(ranges: Iterable[tuple[int, ...]]) -> set[int]:
    return {n for first, last, *_ in ranges for n in range(first, last + 1)}


def counts(ranges: list[Acquired]) -> dict[int, int]:
    return {n: one.delivery_count for one in ranges for n in range(one.first, one.last + 1)}


@given(st.lists(bounds))
def test_merged_holds_the_same_offsets_in_separate_runs(ranges: list[tuple[int, int]]) -> None:
    result = merged(ranges)
    assert numbers(result) == numbers(ranges)
    assert all(a.last + 1 < b.first for a, b in pairwise(result))


@given(disjoint(), st.lists(bounds))
def test_without_and_common_part_the_offsets(
    ranges: list[Acquired], cut: list[tuple[int, int]]
) -> None:
    outside, inside = without(ranges, cut), common(ranges, cut)
    assert numbers(inside) == numbers(ranges) & numbers(cut)
    assert numbers(outside) == numbers(ranges) - numbers(cut)
    assert counts(outside) | counts(inside) == counts(ranges)
    assert size(outside) + size(inside) == size(ranges)
