"""Lets records rest, and ends their rest (:mod:`sharegroup.share.pauses`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sharegroup.model.share_state import DelayedRow
from sharegroup.share.locks import NOBODY, Lock
from sharegroup.share.pauses import Pauses
from sharegroup.share.record_state import AVAILABLE, DELAYED
from sharegroup.share.release import regions
from sharegroup.share.spans import Status
from sharegroup.share.stretches import Stretch, recoded, spans_of
from sharegroup.share.window import Window


def rest_again(window: Window, delayed: Iterable[DelayedRow]) -> None:
    """Delay the available records that ``delayed`` names with their delivery count. A row that
    names another count, or other records, is out of date: the record was delivered since. Records
    that were due long ago rest until the next tick."""
    for first, last, count, due_ms in delayed:
        first, last = max(first, window.start), min(last, window.end - 1)
        if first > last:
            continue
        old = window.pieces(first, last)
        new: list[Stretch] = []
        found = False
        lock = window.locks.take(NOBODY, due_ms)
        for piece in old:
            status_of = {}
            for code, status in piece.met():
                if status.state is AVAILABLE and status.delivery_count == count:
                    status = Status(DELAYED, count, lock)
                    found = True
                status_of[code] = status
            new += recoded(piece.first, piece.last, piece.codes, status_of)
        if found:
            lock.add_range(first, last)
            window.replace(old, new)
        elif not lock.held:
            window.locks.drop(lock)


def rest(
    window: Window, first: int, last: int, pauses: Pauses, pause_ms: int | None
) -> list[DelayedRow]:
    """Delay the available records in ``first`` … ``last``; returns what must be written.
    ``pause_ms``: how long, if not as the group's back-off says."""
    old = window.pieces(first, last)
    new: list[Stretch] = []
    for piece in old:
        status_of = {}
        for code, status in piece.met():
            if status.state is AVAILABLE:
                count = status.delivery_count
                lock = pauses.begin(piece.first, piece.last, count, pause_ms)
                status = Status(DELAYED, count, lock)
            status_of[code] = status
        new += recoded(piece.first, piece.last, piece.codes, status_of)
    window.replace(old, new)
    return [
        DelayedRow(span.first, span.last, span.delivery_count, span.lock.deadline_ms)
        for span in spans_of(new)
        if span.state is DELAYED and span.lock is not None
    ]


def alike(
    released: Iterable[int], asked: Sequence[tuple[int, int, int]], *, backs_off: bool
) -> Iterator[tuple[int, int, int | None]]:
    """Those of ``released`` that rest, as runs of adjoining offsets with the same pause: the
    milliseconds that the member asks for, or None, as the group's back-off says.

    Args:
        released: ascending.
        asked: ascending and disjoint ranges of offsets, and milliseconds; 0 is no rest.
        backs_off: whether the group has a back-off.
    """
    run: tuple[int, int, int | None] | None = None
    at = 0
    for offset in released:
        while at < len(asked) and asked[at][1] < offset:
            at += 1
        pause_ms = asked[at][2] if at < len(asked) and asked[at][0] <= offset else None
        if not (backs_off if pause_ms is None else pause_ms):
            continue
        if run is not None and run[1:] == (offset - 1, pause_ms):
            run = (run[0], offset, pause_ms)
            continue
        if run is not None:
            yield run
        run = (offset, offset, pause_ms)
    if run is not None:
        yield run


def end_rest(window: Window, pauses: list[Lock]) -> list[tuple[int, int]]:
    """Make available the records of ``pauses``; returns them."""
    ended = set(pauses)
    due: list[tuple[int, int]] = []
    for first, last in list(regions(window, pauses)):
        old = window.pieces(first, last)
        new: list[Stretch] = []
        for piece in old:
            due += [(span.first, span.last) for span in piece.spans() if span.lock in ended]
            status_of = {
                code: Status(AVAILABLE, status.delivery_count, None)
                if status.lock in ended
                else status
                for code, status in piece.met()
            }
            new += recoded(piece.first, piece.last, piece.codes, status_of)
        window.replace(old, new)
    return due
