from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import InvalidRecordState, InvalidRequest
from sharegroup.share.acknowledge import NEAR, SHORT, SILENT, AckBatch, Answer, checked_answers


def answers(
    *batches: AckBatch, start: int = 0, end: int = 9_999, renew: bool = True
) -> list[Answer]:
    return checked_answers(batches, start=start, end=end, renew_allowed=renew)


@pytest.mark.parametrize(
    "batch",
    [
        (5, 4, [1]),
        (-1, 4, [1]),
        (0, 4, []),
        (0, 4, [1, 1]),
        (0, 0, [5]),
        (0, 0, [-1]),
        (0, 0, [256]),
        (0, 0, b"\xff"),
    ],
)
def test_malformed_batches(batch: AckBatch) -> None:
    with pytest.raises(InvalidRequest):
        answers(batch)


@pytest.mark.parametrize("second", [(3, 6, [1]), (3, 3, [1]), (0, 0, [1])])
def test_batches_that_overlap_or_go_back(second: AckBatch) -> None:
    with pytest.raises(InvalidRequest):
        answers((2, 4, [1]), second)


def test_batches_that_share_an_offset() -> None:
    with pytest.raises(InvalidRecordState, match="Offset 4 "):
        answers((2, 4, [1]), (4, 6, [1]))
    with pytest.raises(InvalidRecordState, match="Offset 4 "):
        answers((4, 4, [1]), (4, 4, [1]), start=4)
    with pytest.raises(InvalidRequest, match="Offset 6 "):
        answers((2, 4, [1]), (4, 6, [1]), end=6)
    assert answers((2, 4, [1]), (4, 6, [2]), start=5) == [Answer(5, 6, b"\2")], "it is finished"
    assert answers((2, 4, [1]), (4, 4, [1]), (6, 6, [2]), start=5) == [Answer(6, 6, b"\2")]
    assert answers((2, 4, [1]), (4, 6, [2]), start=7) == []


def test_renew_only_where_the_request_allows_it() -> None:
    assert answers((0, 1, [1, 4])) == [Answer(0, 1, b"\1\4")]
    with pytest.raises(InvalidRequest):
        answers((0, 1, [1, 4]), renew=False)


def test_a_malformed_batch_is_found_before_one_outside_the_window() -> None:
    with pytest.raises(InvalidRequest):
        answers((200, 201, [1]), (300, 301, [9]), end=100)


def test_offsets_below_the_start_are_ignored() -> None:
    assert answers((0, 4, [1]), start=5) == []
    assert answers((0, 5, [1]), start=5) == [Answer(5, 5, b"\1")]
    assert answers((3, 6, [1, 2, 3, 0]), start=5) == [Answer(5, 6, b"\3\0")]
    single = [(at, at, [1]) for at in range(8)]
    assert answers(*single, start=6) == [Answer(6, 7, b"\1\1")]


def test_past_the_window() -> None:
    with pytest.raises(InvalidRequest):
        answers((10, 12, [1]), end=10)
    with pytest.raises(InvalidRecordState):
        answers((10, 12, [1]), start=10, end=10)
    with pytest.raises(InvalidRequest):
        answers((9, 12, [1]), end=10)


def test_which_offset_is_past_the_window() -> None:
    with pytest.raises(InvalidRequest, match="Offset 12 "):
        answers((9, 9, [1]), (11, 12, [1]), (14, 15, [1]), end=12)
    with pytest.raises(InvalidRecordState, match="Offset 11 "):
        answers((9, 9, [1]), (11, 12, [1]), start=10, end=10)


def test_short_batches_near_each_other_are_one_answer() -> None:
    far = 4 + NEAR
    near = ((0, 1, [1]), (2, 2, [3]), (4, 4, [0]), (far, far, [1]))
    types = b"\1\1\3" + bytes([SILENT]) + b"\0" + bytes([SILENT]) * (NEAR - 1) + b"\1"
    assert answers(*near) == [Answer(0, far, types)]
    after = far + NEAR + 1
    assert answers(*near, (after, after + 1, [2, 1])) == [
        Answer(0, far, types),
        Answer(after, after + 1, b"\2\1"),
    ]


def test_a_long_batch_stays_one_byte() -> None:
    long = (1, SHORT + 1, [1])
    assert answers((0, 0, [2]), long, (SHORT + 2, SHORT + 2, [2])) == [
        Answer(0, 0, b"\2"),
        Answer(1, SHORT + 1, b"\1"),
        Answer(SHORT + 2, SHORT + 2, b"\2"),
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 0, 1, NEAR - 1, NEAR, 600]),
            st.sampled_from([1, 1, 1, 2, 3, SHORT, SHORT + 1]),
            st.integers(0, 4),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 40),
)
def test_answers_say_what_the_batches_said(
    parts: list[tuple[int, int, int, bool]], start: int
) -> None:
    batches, expected, end = [], {}, 0
    for hole, size, kind, each in parts:
        first = end + hole
        end = first + size
        types = [(kind + i) % 5 for i in range(size)] if each else [kind]
        batches.append((first, end - 1, types))
        spread = types if each else types * size
        expected |= {first + i: one for i, one in enumerate(spread) if first + i >= start}
    found = answers(*batches, start=start, end=max(start + 1, end))
    said = [
        (one.first + i, kind)
        for one in found
        for i, kind in enumerate(
            one.types * (one.last - one.first + 1) if len(one.types) == 1 else one.types
        )
        if kind != SILENT
    ]
    assert said == sorted(expected.items())
    assert all(a.last < b.first for a, b in pairwise(found))
