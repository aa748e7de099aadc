from __future__ import annotations

import pytest

from sharegroup.model.share_state import StateBatch
from sharegroup.share.order.free_ranges import FreeRanges
from sharegroup.share.record_state import RecordState
from sharegroup.share.spans import Span
from sharegroup.share.stretches import woven
from sharegroup.share.window import Window

AVAILABLE, ACKNOWLEDGED, ARCHIVED = (
    RecordState.AVAILABLE,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVED,
)


def shape(window: Window) -> list[tuple[int, int, int, int]]:
    window.check_invariants()
    return [(s.first, s.last, int(s.state), s.delivery_count) for s in window]


def put(window: Window, *spans: Span) -> None:
    """Put adjoining spans in place of what is there."""
    window.replace(window.pieces(spans[0].first, spans[-1].last), list(woven(spans)))


def test_nothing_durable_gives_an_empty_window() -> None:
    window = Window.restored(7, [])
    assert shape(window) == []
    assert (window.start, window.end, FreeRanges(window).first()) == (7, 7, None)


def test_gaps_between_durable_batches_are_available_with_count_0() -> None:
    window = Window.restored(10, [StateBatch(12, 13, 2, 1), StateBatch(15, 15, 0, 3)])
    assert shape(window) == [(10, 11, 0, 0), (12, 13, 2, 0), (14, 14, 0, 0), (15, 15, 0, 3)]
    assert FreeRanges(window).first() == 10


def test_a_finished_prefix_is_passed() -> None:
    window = Window.restored(10, [StateBatch(10, 11, 2, 1), StateBatch(12, 12, 4, 5)])
    assert (window.start, window.end, shape(window)) == (13, 13, [])
    window = Window.restored(10, [StateBatch(10, 11, 2, 1), StateBatch(13, 13, 4, 5)])
    assert shape(window) == [(12, 12, 0, 0), (13, 13, 4, 0)]


@pytest.mark.parametrize(
    ("start", "batches"),
    [
        (-1, []),
        (10, [StateBatch(9, 11, 0, 1)]),
        (10, [StateBatch(12, 11, 0, 1)]),
        (10, [StateBatch(12, 15, 0, 1), StateBatch(15, 16, 0, 1)]),
        (10, [StateBatch(12, 15, 1, 1)]),
        (10, [StateBatch(12, 15, 3, 1)]),
        (10, [StateBatch(12, 15, 0, -1)]),
    ],
)
def test_impossible_durable_state(start: int, batches: list[StateBatch]) -> None:
    with pytest.raises(ValueError, match=r"offset|state|order"):
        Window.restored(start, batches)


def test_replace_merges_with_both_neighbours() -> None:
    window = Window.restored(0, [StateBatch(0, 9, 0, 1)])
    put(window, Span(3, 5, ACKNOWLEDGED, 0, None))
    assert shape(window) == [(0, 2, 0, 1), (3, 5, 2, 0), (6, 9, 0, 1)]
    put(window, Span(6, 7, ACKNOWLEDGED, 0, None))
    assert shape(window) == [(0, 2, 0, 1), (3, 7, 2, 0), (8, 9, 0, 1)]
    put(window, Span(3, 7, AVAILABLE, 1, None))
    assert shape(window) == [(0, 9, 0, 1)]


def test_moving_the_start_into_a_span_and_past_the_end() -> None:
    window = Window.restored(0, [StateBatch(0, 9, 0, 1)])
    window.move_start(0)
    window.move_start(4)
    assert shape(window) == [(4, 9, 0, 1)]
    assert FreeRanges(window).first() == 4
    window.move_start(20)
    assert (window.start, window.end, shape(window)) == (20, 20, [])
