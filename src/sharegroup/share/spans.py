"""Spans: adjoining offsets with one status, as consoles, checks and throttling see a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sharegroup.share.locks import Lock
from sharegroup.share.record_state import AVAILABLE, RecordState

ABSENT = -1
"""Delivery count of an ARCHIVED span whose offsets no read found. An acknowledgement may include
these offsets along with records; it has no effect on them."""


class Status(NamedTuple):
    """What the window knows of a record.

    ``lock`` is set exactly while ACQUIRED or DELAYED. A terminal status keeps no delivery count (it
    is 0, or ABSENT), so that finished neighbours merge whatever their history was.
    """

    state: RecordState
    delivery_count: int
    lock: Lock | None


class Span(NamedTuple):
    """Offsets ``first`` … ``last`` (both included) with the same :class:`Status`."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    lock: Lock | None

    @property
    def size(self) -> int:
        """How many offsets the span holds."""
        return self.last - self.first + 1


def clipped(span: Span, first: int, last: int) -> Span:
    """The part of ``span`` inside ``first`` … ``last``; they must overlap."""
    if span.first >= first and span.last <= last:
        return span
    return Span(max(span.first, first), min(span.last, last), *span[2:])


def as_spans(offsets: Sequence[int], first: int, last: int) -> list[Span]:
    """``first`` … ``last`` as spans: available at ``offsets``, archived where no record is."""
    spans: list[Span] = []
    end = first
    for begin, until in _adjoining(offsets):
        if begin > end:
            spans.append(Span(end, begin - 1, RecordState.ARCHIVED, ABSENT, None))
        spans.append(Span(begin, until, AVAILABLE, 0, None))
        end = until + 1
    if end <= last:
        spans.append(Span(end, last, RecordState.ARCHIVED, ABSENT, None))
    return spans


def _adjoining(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending offsets as ranges."""
    if not offsets:
        return
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        yield offsets[0], offsets[-1]
        return
    begin = before = offsets[0]
    for offset in offsets:
        if offset - before > 1:
            yield begin, before
            begin = offset
        before = offset
    yield begin, before
