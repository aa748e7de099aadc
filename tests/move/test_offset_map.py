"""A copy's offsets, against a plain dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.move.offset_map import OffsetMap

RUNS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=10)
"""How many offsets before a run have no record, and how many of its own have one."""


@given(RUNS, st.integers(0, 7))
def test_every_offset_is_where_a_list_says(runs: list[tuple[int, int]], start: int) -> None:
    places = OffsetMap(start)
    offsets: list[int] = []
    at = 0
    for gap, count in runs:
        places.add(at + gap, count)
        offsets += range(at + gap, at + gap + count)
        at += gap + count
    assert places.end == start + len(offsets)
    assert len(places) == sum(gap > 0 or not n for n, (gap, _) in enumerate(runs))
    for offset in range(at + 3):
        before = sum(one < offset for one in offsets)
        assert places.place(offset) == start + before
        for last in range(offset, at + 3):
            until = sum(one <= last for one in offsets)
            span = (start + before, start + until - 1) if before < until else None
            assert places.span(offset, last) == span
    assert places.moved == any(one != start + n for n, one in enumerate(offsets))


def test_records_come_in_order() -> None:
    places = OffsetMap()
    places.add(4, 2)
    with pytest.raises(ValueError, match="1 records at 5, after 5"):
        places.add(5, 1)
    with pytest.raises(ValueError, match="0 records"):
        places.add(7, 0)
