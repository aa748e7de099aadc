"""Which letters are done, against a plain set; and the pace of a redrive."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.done_letters import CHUNK, DoneLetters, DoneOf
from sharegroup.client.core.pace import Pace

OF = DoneOf("billing", "dead", UUID(int=1))
_OFFSETS = st.one_of(st.integers(0, 40), st.integers(CHUNK - 20, CHUNK + 20))
_RANGES = st.tuples(_OFFSETS, st.integers(0, 30)).map(lambda one: (one[0], one[0] + one[1]))


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.one_of(_RANGES, st.just((5, 3 * CHUNK)))), max_size=12
    ),
    _OFFSETS,
)
def test_marks_are_what_a_set_would_be(
    steps: list[tuple[int, tuple[int, int]]], begin: int
) -> None:
    done, again = DoneLetters(OF), DoneLetters(OF)
    others = DoneLetters(OF._replace(topic_id=UUID(int=2)))
    expected: dict[int, set[int]] = {0: set(), 1: set()}
    for partition, (first, last) in steps:
        expected[partition].update(range(first, last + 1))
        for mark in done.mark(partition, [(first, last)]):
            again.load(mark)
            others.load(mark)
    for own in (done, again):
        for partition, offsets in expected.items():
            for offset in (0, 5, begin, begin + 1, CHUNK - 1, CHUNK, 3 * CHUNK, 3 * CHUNK + 1):
                assert own.holds(partition, offset) == (offset in offsets)
            open_ones = (at for at in range(begin, 4 * CHUNK) if at not in offsets)
            assert own.first_open(partition, begin) == next(open_ones)
            count = sum(at not in offsets for at in range(begin, 3 * CHUNK))
            assert own.count_open(partition, begin, 3 * CHUNK) == count
    assert not any(others.holds(number, begin) for number in (0, 1)), "a topic made anew"


def test_chunks_that_the_topic_has_deleted_are_forgotten() -> None:
    done, again = DoneLetters(OF), DoneLetters(OF)
    marks = done.mark(0, [(0, 2 * CHUNK)]) + done.mark(1, [(0, 5)])
    assert [value for _, value in marks] == [
        b'{"done":[[0,9999]]}',
        b'{"done":[[10000,19999]]}',
        b'{"done":[[20000,20000]]}',
        b'{"done":[[0,5]]}',
    ]
    assert done.forget_before(0, CHUNK - 1) == []
    over = done.forget_before(0, 2 * CHUNK)
    assert [value for _, value in over] == [None, None]
    for mark in (*marks, *over):
        again.load(mark)
    for own in (done, again):
        assert not own.holds(0, 5)
        assert own.holds(0, 2 * CHUNK)
        assert own.holds(1, 5)


@pytest.mark.parametrize(
    ("key", "value"), [(b"", b""), (b"{}", b""), (b"[1]", None), (b"[" * 100_000, None)]
)
def test_what_is_no_mark_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ValueError):
        DoneLetters(OF).load((key, value))


def test_a_pace_has_no_bursts() -> None:
    pace = Pace(10.0)
    assert pace.wait_s(5, 100.0) == 0.0
    assert pace.wait_s(5, 100.0) == 0.5
    assert pace.wait_s(5, 100.6) == pytest.approx(0.4)
    assert pace.wait_s(1, 200.0) == 0.0, "idle time is not saved up"
    assert pace.wait_s(1, 200.0) == pytest.approx(0.1)
