from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.share import stretches as module
from sharegroup.share.locks import Lock
from sharegroup.share.record_state import RecordState
from sharegroup.share.spans import Span, Status
from sharegroup.share.stretches import Stretch, clipped, joined, recoded, spans_of, woven
from sharegroup.share.window import Window

SPANS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40)), min_size=1, max_size=40)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that few offsets reach."""
    monkeypatch.setattr(module, "SHORT", 6)
    monkeypatch.setattr(module, "LONG", 12)


def status(count: int) -> Status:
    return Status(RecordState.AVAILABLE, count, None)


def tiled(parts: list[tuple[int, int]], first: int = 5) -> list[Span]:
    """Adjoining spans of so many offsets and such delivery counts."""
    spans = []
    for size, count in parts:
        spans.append(Span(first, first + size - 1, *status(count)))
        first += size
    return spans


def offsets(spans: list[Span]) -> list[tuple[int, Status]]:
    return [(o, Status(*s[2:])) for s in spans for o in range(s.first, s.last + 1)]


@given(SPANS)
def test_woven_spans_are_the_same_spans(parts: list[tuple[int, int]]) -> None:
    spans = tiled(parts)
    found = list(spans_of(woven(spans)))
    assert offsets(found) == offsets(spans)
    assert all(a[2:] != b[2:] for a, b in pairwise(found))
    assert offsets(list(spans_of(joined(woven(spans))))) == offsets(spans)


@given(SPANS, st.integers(0, 400), st.integers(0, 400))
def test_clipped_keeps_what_overlaps(parts: list[tuple[int, int]], one: int, other: int) -> None:
    for stretch in woven(tiled(parts)):
        first = min(max(one, stretch.first), stretch.last)
        last = min(max(other, first), stretch.last)
        part = clipped(stretch, first, last)
        assert (part.first, part.last) == (first, last)
        assert part.uniform == (len(part.codes) == 1)
        inside = [each for each in offsets(list(stretch.spans())) if first <= each[0] <= last]
        assert offsets(list(part.spans())) == inside


@given(st.binary(min_size=1, max_size=80), st.integers(1, 60))
def test_recoded_offsets_have_the_status_of_their_code(codes: bytes, statuses: int) -> None:
    status_of = {code: status(code % statuses) for code in codes}
    last = len(codes) - 1
    found = recoded(0, last, codes, status_of)
    spans = [span for stretch in found for span in stretch.spans()]
    assert offsets(spans) == [(at, status_of[code]) for at, code in enumerate(codes)]
    for stretch in found:
        assert len(stretch.statuses) <= module.STATUSES_MAX
        assert stretch.uniform or stretch.last - stretch.first < module.LONG


def test_the_first_offset_of_a_state() -> None:
    done = Status(RecordState.ACKNOWLEDGED, 0, None)
    [stretch] = recoded(10, 14, b"\1\1\0\0\1", {0: status(0), 1: done})
    assert stretch.first_where([True, False, False, False, False]) == 12
    assert stretch.first_where([False, False, True, False, False]) == 10
    assert stretch.first_where([False, True, False, False, True]) is None
    assert Stretch(3, 7, (done,)).first_where([False, False, True, False, False]) == 3


def test_more_locks_than_one_stretch_can_name() -> None:
    """Each record of a window is held by another member."""
    window = Window(0)
    locks = [window.locks.take(f"member {n}", 30_000 + n) for n in range(500)]
    held = RecordState.ACQUIRED
    for at, lock in enumerate(locks):
        lock.add_range(at, at)
        window.extend([Span(at, at, held, 1, lock)])
        if at % 50 == 0:
            window.check_invariants()
    window.check_invariants()
    assert window.span_count() == 500
    assert [span.lock for span in window] == locks
    assert all(isinstance(span.lock, Lock) for span in window.iterate_from(250))
