from __future__ import annotations

from sharegroup.model.share_state import StateBatch
from sharegroup.share.order.free_ranges import FreeRanges
from sharegroup.share.record_state import RecordState
from sharegroup.share.spans import Span
from sharegroup.share.stretches import woven
from sharegroup.share.window import Window

AVAILABLE, ARCHIVED = RecordState.AVAILABLE, RecordState.ARCHIVED


def put(window: Window, *spans: Span) -> None:
    """Put adjoining spans in place of what is there."""
    window.replace(window.pieces(spans[0].first, spans[-1].last), list(woven(spans)))


def test_first_available_follows_what_is_taken_and_given_back() -> None:
    window = Window.restored(0, [StateBatch(0, 9, 0, 1), StateBatch(20, 29, 0, 1)])
    free = FreeRanges(window)
    put(window, Span(0, 19, ARCHIVED, 0, None))
    assert free.first() == 20
    put(window, Span(5, 5, AVAILABLE, 1, None))
    free.offer([(5, 5)])
    assert free.first() == 5


def test_free_ranges_do_not_pile_up() -> None:
    window = Window.restored(0, [StateBatch(0, 9, 0, 1)])
    free = FreeRanges(window)
    for _ in range(1_000):
        put(window, Span(5, 5, ARCHIVED, 0, None))
        put(window, Span(5, 5, AVAILABLE, 1, None))
        free.offer([(5, 5)])
    assert len(free._ranges) < 200
    window.check_invariants()
    free.check_invariants()
