from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.share import spans as module
from sharegroup.share.record_state import RecordState
from sharegroup.share.spans import Span, SpanList, clipped, merged


def span(first: int, last: int, count: int = 0) -> Span:
    return Span(first, last, RecordState.AVAILABLE, count, None)


def test_clipped_keeps_what_overlaps() -> None:
    assert clipped(span(0, 9), 3, 5) == span(3, 5)
    assert clipped(span(0, 9), -5, 5) == span(0, 5)
    assert clipped(span(0, 9), 0, 9) == span(0, 9)


def test_merged_joins_equal_neighbours() -> None:
    assert merged([span(0, 1), span(2, 3), span(4, 4, 1), span(5, 5)]) == [
        span(0, 3),
        span(4, 4, 1),
        span(5, 5),
    ]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 4)


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 9), st.integers(1, 12))))
def test_splices_agree_with_a_plain_list(
    splices: list[tuple[int, int, int]],
) -> None:
    """Replace random stretches by more or fewer spans; a plain list does the same."""
    spans, plain = SpanList(), [span(first, first) for first in range(60)]
    spans.append(list(plain))
    for stamp, (first, more, pieces) in enumerate(splices):
        last = min(first + more, 59)
        inside = [s for s in plain if s.last >= first and s.first <= last]
        assert spans.covering(first, last) == inside
        low, high = inside[0].first, inside[-1].last
        pieces = min(pieces, high - low + 1)
        new = [span(low + i, low + i, stamp) for i in range(pieces - 1)]
        new.append(span(low + pieces - 1, high, stamp))
        at = plain.index(inside[0])
        plain[at : at + len(inside)] = new
        spans.splice(first, last, new)
        assert list(spans) == plain
        assert len(spans) == len(plain)
        assert (spans.head(), spans.tail()) == (plain[0], plain[-1])
        assert list(spans.iterate_from(first)) == [s for s in plain if s.last >= first]
        assert all(0 < len(chunk) <= 8 for chunk in spans._chunks)


def test_an_empty_list() -> None:
    spans = SpanList()
    assert (spans.head(), spans.tail(), len(spans), list(spans)) == (None, None, 0, [])
    spans.append([span(0, 3)])
    spans.splice(0, 3, [])
    assert list(spans) == []
