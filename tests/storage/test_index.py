"""Both indexes against plain lists, and their files."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.storage.indexes.sparse_index import OffsetIndex, TimeIndex

STEPS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40)


@given(steps=STEPS, ask=st.integers(0, 2500))
def test_offset_index(steps: list[tuple[int, int]], ask: int) -> None:
    index = OffsetIndex()
    entries = []
    offset, position = -1, 0
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        index.append(offset, position)
        entries.append((offset, position))
    again = OffsetIndex.from_bytes(index.to_bytes(), position + 100)
    for each in (index, again):
        assert len(each) == len(entries)
        assert each.before(ask) == max((e for e in entries if e[0] <= ask), default=None)
        assert each.boundary_before(ask) == max((e for e in entries if e[1] <= ask), default=None)
    assert OffsetIndex.last_entry(index.to_bytes()) == (entries[-1] if entries else None)
    assert index.to_bytes() == b"".join(struct.pack(">ii", *entry) for entry in entries)


@given(times=st.lists(st.integers(0, 100), min_size=1, max_size=60), ask=st.integers(-5, 105))
def test_time_index(times: list[int], ask: int) -> None:
    index = TimeIndex()
    for offset, time in enumerate(times):
        index.saw(time, offset)
        if offset % 3 == 0:
            index.mark()
    index.mark()
    again = TimeIndex.from_bytes(index.to_bytes(), 100)
    for each in (index, again):
        entry = each.before(ask)
        assert all(time < ask for time in times[: entry.relative_offset if entry else 0])
        before = each.before_offset(ask)
        if before is not None:
            assert before.relative_offset < ask
            assert before.timestamp == max(times[: before.relative_offset + 1])
        indexed = times[: (ask - 1) // 3 * 3 + 1] if ask > 0 else []
        assert max(indexed, default=-1) <= (-1 if before is None else before.timestamp)
        assert each.max_timestamp == max(times)
        assert each.max_timestamp_offset == times.index(max(times))


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 7,
        b"\0" * 8,
        struct.pack(">iiii", 5, 10, 4, 20),
        struct.pack(">iiii", 5, 20, 6, 10),
        struct.pack(">iiii", 5, 10, 5, 20),
        struct.pack(">iiiiii", 5, 10, 4, 20, 6, 30),
        struct.pack(">iiiiii", 5, 10, 6, 30, 7, 30),
        struct.pack(">ii", 5, 1000),
        struct.pack(">ii", -5, 10),
    ],
)
def test_invalid_offset_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="offset index"):
        OffsetIndex.from_bytes(data, 1000)


@pytest.mark.parametrize(
    "data",
    [b"\0" * 11, struct.pack(">qiqi", 5, 0, 5, 1), struct.pack(">qi", 5, -1)],
)
def test_invalid_time_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="time index"):
        TimeIndex.from_bytes(data, 1000)


def test_a_time_index_of_an_empty_log_has_no_entries() -> None:
    with pytest.raises(ValueError, match="time index"):
        TimeIndex.from_bytes(struct.pack(">qi", 5, 1), 0)
    assert TimeIndex.from_bytes(b"", 0).max_timestamp == -1
