"""Expiry: records that are worthless by now are archived before somebody gets them.

The caller finds them in what it has read from the log, and says which they are. Records that
members hold stay held: their answers count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

from sharegroup.model.dead_records import Cause
from sharegroup.share.lost_records import GONE
from sharegroup.share.offset_codes import DOUBLED, combined, distinct
from sharegroup.share.ranges import LogRead
from sharegroup.share.record_state import AVAILABLE, DELAYED, Verb
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.spans import ABSENT, Span
from sharegroup.share.state_changes import Changes
from sharegroup.share.stretches import Stretch
from sharegroup.share.window import Window

_FREE: Final = (AVAILABLE, DELAYED)
_FIRST: Final = itemgetter(0)
_LAST: Final = itemgetter(1)

Ranges = Sequence[tuple[int, int]]
"""First and last offsets; ascending and disjoint."""


def letters_of(settings: DeliverySettings) -> Cause | None:
    """The cause of the dead letters of records that expire; None: they become none."""
    return Cause.EXPIRED if settings.expiry is not None and settings.expiry.letters else None


def expire(window: Window, ranges: Ranges, changes: Changes) -> None:
    """Archive the records in ``ranges`` that nobody holds. Offsets outside of the window are left
    out."""
    inside = [*overlaps([(window.start, window.end - 1)], ranges)]
    if not inside:
        return
    old = window.pieces(inside[0][0], inside[-1][1])
    window.replace(old, [one for piece in old for one in _expired(piece, inside, changes)])


def _expired(piece: Stretch, ranges: Ranges, changes: Changes) -> list[Stretch]:
    wanted = _marks(piece, ranges)
    codes = wanted
    if not piece.uniform:
        doubled = piece.codes.translate(DOUBLED)
        codes = combined(doubled, wanted if len(wanted) > 1 else wanted * len(doubled))
    met = {}
    for code in distinct(codes):  # twice the code of the status, and odd if the record has expired
        status = piece.statuses[code >> 1]
        goes = code & 1 and status.state in _FREE
        met[code] = (status, Verb.EXPIRE if goes else None)
    return changes.moved(piece, codes, met)


def _marks(piece: Stretch, ranges: Ranges) -> bytes:
    """1 for each offset of the piece that lies in ``ranges``, else 0; one byte if all are alike."""
    begin = bisect_left(ranges, piece.first, key=_LAST)
    end = bisect_right(ranges, piece.last, key=_FIRST)
    parts = [*overlaps([(piece.first, piece.last)], ranges[begin:end])]
    if not parts:
        return b"\0"
    if parts == [(piece.first, piece.last)]:
        return b"\1"
    marks = bytearray(piece.last - piece.first + 1)
    for first, last in parts:
        marks[first - piece.first : last - piece.first + 1] = b"\1" * (last - first + 1)
    return bytes(marks)


def overlaps(some: Iterable[tuple[int, int]], others: Ranges) -> Iterator[tuple[int, int]]:
    """The offsets that lie in both, as ranges; both are ascending and disjoint."""
    at = 0
    for first, last in some:
        while at < len(others) and others[at][1] < first:
            at += 1
        while at < len(others) and others[at][0] <= last and first <= last:
            yield max(first, others[at][0]), min(last, others[at][1])
            if others[at][1] > last:
                break
            at += 1


def new_spans(window: Window, fetched: LogRead, expired: Ranges, room: int) -> list[Span]:
    """What of the log to take into the window, so that the expired records in it can be archived:
    the offsets from the window's end up to the last one that has expired, but not more than
    ``room``. A run of expired records at the window's end is taken whole: nobody waits behind it.
    """
    begin = fetched.from_offset(window.end)
    new = [one for one in expired if one[1] >= window.end]
    if room <= 0 or begin is None or not new:
        return []
    limit = window.end + room - 1
    if new[0][0] <= begin:
        limit = max(limit, new[0][1])
    last = max((min(until, limit) for first, until in new if first <= limit), default=-1)
    return spans_up_to(window, fetched, last)


def spans_up_to(window: Window, fetched: LogRead, last: int) -> list[Span]:
    """The offsets from the window's end up to ``last``, which were read, as they come into the
    window: available, or gone where no record is."""
    at = window.end
    spans: list[Span] = []
    for first, until in fetched.missing:
        first, until = max(first, at), min(until, last)
        if first > until:
            continue
        if first > at:
            spans.append(Span(at, first - 1, AVAILABLE, 0, None))
        spans.append(Span(first, until, GONE, ABSENT, None))
        at = until + 1
    if at <= last:
        spans.append(Span(at, last, AVAILABLE, 0, None))
    return spans
