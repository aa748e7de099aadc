"""Stretches: adjoining offsets with one status for all, or with one status for each.

A window of few pieces is a few stretches with one status each, whatever their length. Where pieces
are short, a stretch has a table of statuses and one byte per offset, its index in that table
(:mod:`sharegroup.share.offset_codes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sharegroup.share.offset_codes import distinct, runs
from sharegroup.share.spans import Span, Status

STATUSES_MAX: Final = 32
"""Most statuses in one stretch: a status's index and the three bits of an acknowledgement type fit
into one byte."""
SHORT: Final = 512
"""Neighbours that together have at most this many offsets become one stretch."""
LONG: Final = 4096
"""Most offsets in one stretch with different statuses: a change copies the whole stretch."""
ALL: Final = b"\0"
"""Codes of a stretch with one status."""


@dataclass(slots=True)
class Stretch:
    """Offsets ``first`` … ``last``, both included, and their statuses. It is never changed.

    ``codes`` has one byte for each offset, an index in ``statuses``, or is :data:`ALL`. Not every
    entry of ``statuses`` need occur, but where there is one status for all, it is the only entry.
    """

    # Final, not frozen: a frozen dataclass takes a microsecond more to make.
    first: Final[int]
    last: Final[int]
    statuses: Final[tuple[Status, ...]]
    codes: Final[bytes] = ALL

    @property
    def uniform(self) -> bool:
        """All offsets have the same status."""
        return len(self.codes) == 1

    def met(self) -> list[tuple[int, Status]]:
        """The codes that occur, with their statuses."""
        statuses = self.statuses
        return [(code, statuses[code]) for code in distinct(self.codes)]

    def sizes(self) -> list[tuple[Status, int]]:
        """How many offsets have each status."""
        codes = self.codes
        if len(codes) == 1:
            return [(self.statuses[0], self.last - self.first + 1)]
        return [(status, codes.count(code)) for code, status in enumerate(self.statuses)]

    def first_where(self, wanted: Sequence[bool], since: int = 0) -> int | None:
        """The first offset from ``since`` on whose state is wanted, or None.

        ``wanted`` says for each state, by its number, whether it is wanted.
        """
        codes, statuses = self.codes, self.statuses
        at = since - self.first if since > self.first else 0
        if len(codes) == 1:
            return self.first + at if wanted[statuses[0].state] else None
        if wanted[statuses[codes[at]].state]:
            return self.first + at
        others = [code for code, one in enumerate(statuses) if not wanted[one.state]]
        left = len(codes[at:].lstrip(bytes(others)))
        return self.last + 1 - left if left else None

    def spans(self) -> Iterator[Span]:
        """Its spans."""
        if len(self.codes) == 1:
            yield Span(self.first, self.last, *self.statuses[0])
            return
        for first, last, code in zip(*runs(self.first, self.last, self.codes), strict=True):
            yield Span(first, last, *self.statuses[code])


def clipped(stretch: Stretch, first: int, last: int) -> Stretch:
    """The part of ``stretch`` inside ``first`` … ``last``; they must overlap."""
    at, until, statuses, codes = stretch.first, stretch.last, stretch.statuses, stretch.codes
    if at >= first and until <= last:
        return stretch
    low = first if first > at else at
    high = last if last < until else until
    if len(codes) > 1:
        codes = codes[low - at : high - at + 1]
        if codes.count(codes[0]) == len(codes):
            return Stretch(low, high, (statuses[codes[0]],))
    return Stretch(low, high, statuses, codes)


def recoded(first: int, last: int, codes: bytes, status_of: Mapping[int, Status]) -> list[Stretch]:
    """Stretches in which each offset has the status that ``status_of`` names for its code.

    ``codes`` has one byte for each offset or one for all; ``status_of`` has a status for each of
    these bytes, and no others.
    """
    if len(status_of) == 1:
        return [Stretch(first, last, tuple(status_of.values()))]
    statuses: list[Status] = []
    table = bytearray(256)
    for code, status in status_of.items():
        table[code] = _index(status, statuses)
    size = last - first + 1
    if len(statuses) == 1:
        return [Stretch(first, last, (statuses[0],))]
    if len(statuses) <= STATUSES_MAX and size <= LONG:
        return [Stretch(first, last, tuple(statuses), codes.translate(table))]
    # Divide until each part is short enough and has few enough statuses.
    step = min(LONG, -(-size // 2))
    parts: list[Stretch] = []
    for at in range(0, size, step):
        part = codes[at : at + step]
        named = {code: status_of[code] for code in distinct(part)}
        parts += recoded(first + at, first + at + len(part) - 1, part, named)
    return parts


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Adjoining ``stretches``; neighbours that have one and the same status, or that together are
    short, become one."""
    out: list[Stretch] = []
    before: Stretch | None = None
    for stretch in stretches:
        if before is None:
            one = None
        elif len(before.codes) == len(stretch.codes) == 1 and before.statuses == stretch.statuses:
            one = Stretch(before.first, stretch.last, stretch.statuses)
        elif stretch.last - before.first < SHORT:
            one = _woven_together(before, stretch)
        else:
            one = None
        if one is None:
            out.append(stretch)
            before = stretch
        else:
            before = out[-1] = one
    return out


def woven(spans: Sequence[Span]) -> Iterator[Stretch]:
    """Adjoining ``spans`` as stretches: many short spans make one stretch."""
    if len(spans) == 1:
        only = spans[0]
        yield Stretch(only.first, only.last, (Status(*only[2:]),))
        return
    first = end = -1
    statuses: list[Status] = []
    parts: list[bytes] = []
    for span in spans:
        size = span.last - span.first + 1
        status = Status(*span[2:])
        if parts and (span.last - first >= SHORT or len(statuses) == STATUSES_MAX):
            yield from recoded(first, end, b"".join(parts), dict(enumerate(statuses)))
            statuses, parts = [], []
        if size > SHORT:
            yield Stretch(span.first, span.last, (status,))
            continue
        if not parts:
            first = span.first
        parts.append(bytes((_index(status, statuses),)) * size)
        end = span.last
    if parts:
        yield from recoded(first, end, b"".join(parts), dict(enumerate(statuses)))


def spans_of(stretches: Iterable[Stretch]) -> Iterator[Span]:
    """The spans of adjoining stretches; neighbours differ."""
    before: Span | None = None
    for stretch in stretches:
        for span in stretch.spans():
            if before is not None and before[2:] == span[2:]:
                before = Span(before.first, span.last, *span[2:])
                continue
            if before is not None:
                yield before
            before = span
    if before is not None:
        yield before


def _woven_together(left: Stretch, right: Stretch) -> Stretch | None:
    """Two short stretches as one; None if that would have more than STATUSES_MAX statuses."""
    if len(left.statuses) + len(right.statuses) > STATUSES_MAX:
        # The loop below finds it out, too, but compares each status with each.
        every = {stretch.statuses[code] for stretch in (left, right) for code in set(stretch.codes)}
        if len(every) > STATUSES_MAX:
            return None
    statuses: list[Status] = []
    codes = b""
    for stretch in (left, right):
        table = bytearray(256)
        for code in distinct(stretch.codes):
            table[code] = _index(stretch.statuses[code], statuses)
        size = stretch.last - stretch.first + 1
        part = stretch.codes.translate(table)
        codes += part * size if stretch.uniform else part
    if len(statuses) > STATUSES_MAX:
        return None
    return Stretch(left.first, right.last, tuple(statuses), codes)


def _index(status: Status, statuses: list[Status]) -> int:
    """The index of ``status``, which is added if it is new."""
    if status not in statuses:
        statuses.append(status)
        return len(statuses) - 1
    return statuses.index(status)
