from __future__ import annotations

import pytest

from sharegroup.share.ranges import AcquiredRange, LogRead, ranges_of


def acquired(first: int, last: int, count: int = 1) -> AcquiredRange:
    return AcquiredRange(first, last, count)


def test_missing_offsets_are_the_gaps_of_the_read() -> None:
    assert LogRead(5, [(0, 9), (10, 12)]).missing == []
    assert LogRead(5, [(8, 9), (12, 12)]).missing == [(5, 7), (10, 11)]


@pytest.mark.parametrize("batches", [[(5, 4)], [(5, 9), (9, 12)], [(5, 9), (0, 3)]])
def test_batches_out_of_order_are_refused(batches: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="out of order"):
        LogRead(0, batches)


def test_from_offset() -> None:
    fetched = LogRead(0, [(0, 4), (8, 9)])
    assert [fetched.from_offset(o) for o in (0, 3, 5, 9, 10)] == [0, 3, 8, 9, None]


def test_cut_is_exact_or_at_the_end_of_a_batch() -> None:
    fetched = LogRead(0, [(0, 4), (5, 9), (12, 20)])
    assert fetched.cut(0, 6, exact=True) == 5
    assert fetched.cut(0, 6, exact=False) == 9
    assert fetched.cut(0, 5, exact=False) == 4
    assert fetched.cut(0, 100, exact=True) == 20


def test_a_cut_in_a_hole_falls_back_to_the_batch_before() -> None:
    fetched = LogRead(0, [(0, 4), (8, 9)])
    assert fetched.cut(0, 7, exact=True) == 4
    assert fetched.cut(0, 7, exact=False) == 4


def test_the_answer_joins_equal_counts_only() -> None:
    fetched = LogRead(0, [(0, 9)])
    spans = [acquired(0, 1), acquired(2, 3), acquired(4, 5, 2), acquired(8, 9, 2)]
    assert list(fetched.answer(spans, None)) == [
        AcquiredRange(0, 3, 1),
        AcquiredRange(4, 5, 2),
        AcquiredRange(8, 9, 2),
    ]


def test_the_answer_is_cut_at_batch_bases_once_it_has_batch_size_offsets() -> None:
    fetched = LogRead(0, [(0, 2), (3, 5), (6, 20), (21, 21)])
    whole = [acquired(0, 21)]
    assert list(fetched.answer(whole, 4)) == [
        AcquiredRange(0, 5, 1),
        AcquiredRange(6, 20, 1),
        AcquiredRange(21, 21, 1),
    ]
    assert list(fetched.answer(whole, 3)) == [
        AcquiredRange(0, 2, 1),
        AcquiredRange(3, 5, 1),
        AcquiredRange(6, 20, 1),
        AcquiredRange(21, 21, 1),
    ]
    assert len(list(fetched.answer(whole, 0))) == 4
    assert list(fetched.answer(whole, 22)) == [AcquiredRange(0, 21, 1)]


@pytest.mark.parametrize(
    ("offsets", "ranges"),
    [
        ([5], [(5, 5, 2)]),
        ([5, 6, 7], [(5, 7, 2)]),
        ([5, 7], [(5, 5, 2), (7, 7, 2)]),
        ([5, 6, 9, 11, 12], [(5, 6, 2), (9, 9, 2), (11, 12, 2)]),
    ],
)
def test_offsets_as_ranges(offsets: list[int], ranges: list[tuple[int, int, int]]) -> None:
    assert ranges_of(offsets, 2) == ranges
