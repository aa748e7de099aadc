"""Ranges of acknowledgement types, against one dictionary entry per offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.acknowledgements import (
    SENT,
    UNDECIDED,
    AcknowledgedRange,
    AcknowledgementQueue,
    ranges_of,
)

KINDS = st.sampled_from([0, 1, 2, 3])
RUNS = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, UNDECIDED, SENT]), st.integers(1, 20)))
ADDED = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 25), KINDS, st.booleans()))


def spelled_out(ranges: list[AcknowledgedRange]) -> dict[int, int]:
    said: dict[int, int] = {}
    for first, last, types in ranges:
        size = last - first + 1
        assert len(types) in (1, size)
        for at in range(size):
            assert first + at not in said, "an offset is said twice"
            said[first + at] = types[0] if len(types) == 1 else types[at]
    return said


@given(RUNS, st.integers(0, 1_000))
def test_ranges_contain_each_decided_offset_once(runs: list[tuple[int, int]], first: int) -> None:
    types = b"".join(bytes([kind]) * size for kind, size in runs)
    expected = {first + at: kind for at, kind in enumerate(types) if kind < UNDECIDED - 1}
    ranges = ranges_of(first, types)
    assert spelled_out(ranges) == expected
    assert [r.first for r in ranges] == sorted(r.first for r in ranges)


def test_a_long_run_is_one_range_of_one_type() -> None:
    types = bytes([1, 2, 1]) + bytes([1]) * 11 + bytes([3, 2])
    assert ranges_of(100, types) == [
        AcknowledgedRange(100, 101, b"\1\2"),
        AcknowledgedRange(102, 113, b"\1"),
        AcknowledgedRange(114, 115, b"\3\2"),
    ]


def test_equal_types_need_one_byte_however_few() -> None:
    assert ranges_of(5, bytes([2, 2, 2])) == [AcknowledgedRange(5, 7, b"\2")]


@given(ADDED)
def test_the_last_answer_for_an_offset_counts(added: list[tuple[int, int, int, bool]]) -> None:
    queue = AcknowledgementQueue()
    expected: dict[int, int] = {}
    for first, size, kind, spelled in added:
        types = bytes([(kind + at) % 4 for at in range(size)]) if spelled else bytes([kind])
        queue.add(first, first + size - 1, types)
        for at in range(size):
            expected[first + at] = types[at] if spelled else kind
    ranges = queue.take()
    assert spelled_out(ranges) == expected
    firsts = [r.first for r in ranges]
    assert firsts == sorted(firsts)
    assert not queue


def test_neighbours_of_one_type_are_joined() -> None:
    queue = AcknowledgementQueue()
    queue.add(10, 19, b"\1")
    queue.add(0, 9, b"\1")
    assert queue.take() == [AcknowledgedRange(0, 19, b"\1")]


@pytest.mark.parametrize(("first", "last", "types"), [(5, 4, b"\1"), (0, 3, b"\1\1"), (0, 0, b"")])
def test_types_must_fit_the_range(first: int, last: int, types: bytes) -> None:
    with pytest.raises(ValueError, match="acknowledgement types"):
        AcknowledgementQueue().add(first, last, types)
