"""A sorted sequence of adjoining spans that stays fast when it is long.

Spans lie in chunks of bounded length (the idea of sortedcontainers), so replacing a few among
200,000 moves a few hundred pointers. Finding one is two bisections.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

from sharegroup.share.locks import Lock
from sharegroup.share.record_state import RecordState

_CHUNK = 256
_FIRST = itemgetter(0)

ABSENT = -1
"""Delivery count of an ARCHIVED span whose offsets no read found. An acknowledgement may include
these offsets along with records; it has no effect on them."""


class Span(NamedTuple):
    """Offsets ``first`` … ``last`` (both included) with the same state, delivery count and lock.

    ``lock`` is set exactly while ACQUIRED. A terminal span keeps no delivery count (it is 0, or
    ABSENT), so that finished neighbours merge whatever their history was.
    """

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


def merged(spans: Iterable[Span]) -> list[Span]:
    """Adjoining ``spans``, with neighbours joined that differ only in their offsets."""
    out: list[Span] = []
    last_rest: tuple[RecordState, int, Lock | None] | None = None
    for span in spans:
        rest = span[2:]
        if rest == last_rest:
            out[-1] = Span(out[-1][0], span[1], *rest)
        else:
            out.append(span)
            last_rest = rest
    return out


class SpanList:
    """Spans in order, each beginning where the one before it ends."""

    def __init__(self) -> None:
        self._chunks: list[list[Span]] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __iter__(self) -> Iterator[Span]:
        return (span for chunk in self._chunks for span in chunk)

    def iterate_from(self, offset: int) -> Iterator[Span]:
        """Spans from the one that holds ``offset`` on."""
        at, index = self._locate(offset)
        for chunk in range(at, len(self._chunks)):
            yield from self._chunks[chunk][index:] if chunk == at else self._chunks[chunk]

    def head(self) -> Span | None:
        """The first span, or None."""
        return self._chunks[0][0] if self._chunks else None

    def tail(self) -> Span | None:
        """The last span, or None."""
        return self._chunks[-1][-1] if self._chunks else None

    def covering(self, first: int, last: int) -> list[Span]:
        """Whole spans from the one that holds ``first`` to the one that holds ``last``."""
        if len(self._chunks) == 1 and len(self._chunks[0]) == 1:
            return [self._chunks[0][0]]
        at, index = self._locate(first)
        end, end_index = self._locate(last)
        if at == end:
            return self._chunks[at][index : end_index + 1]
        spans = self._chunks[at][index:]
        for chunk in self._chunks[at + 1 : end]:
            spans += chunk
        return spans + self._chunks[end][: end_index + 1]

    def splice(self, first: int, last: int, new: list[Span]) -> None:
        """Put ``new`` in place of :meth:`covering` (``first``, ``last``)."""
        if len(self._chunks) == 1 and len(self._chunks[0]) == 1:
            self._chunks[0][:] = new
            self._balance(0)
            return
        at, index = self._locate(first)
        end, end_index = self._locate(last)
        if at == end:
            self._chunks[at][index : end_index + 1] = new
        else:
            self._chunks[at][index:] = new + self._chunks[end][end_index + 1 :]
            del self._chunks[at + 1 : end + 1]
            del self._firsts[at + 1 : end + 1]
        self._balance(at)

    def append(self, new: list[Span]) -> None:
        """Add spans behind the last one."""
        if not self._chunks:
            self._chunks.append([])
            self._firsts.append(0)
        self._chunks[-1] += new
        self._balance(len(self._chunks) - 1)

    def _locate(self, offset: int) -> tuple[int, int]:
        chunk = bisect_right(self._firsts, offset) - 1
        return chunk, bisect_right(self._chunks[chunk], offset, key=_FIRST) - 1

    def _balance(self, at: int) -> None:
        """Restore the chunk at ``at`` after its content changed: not empty, not long, not tiny."""
        chunk = self._chunks[at]
        following = self._chunks[at + 1] if at + 1 < len(self._chunks) else None
        if following is not None and len(chunk) + len(following) <= _CHUNK // 2:
            chunk += following
            del self._chunks[at + 1], self._firsts[at + 1]
        if len(chunk) > 2 * _CHUNK:
            parts = [chunk[i : i + _CHUNK] for i in range(0, len(chunk), _CHUNK)]
        else:
            parts = [chunk] if chunk else []
        self._chunks[at : at + 1] = parts
        self._firsts[at : at + 1] = [part[0].first for part in parts]
