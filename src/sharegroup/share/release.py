"""Release of acquired records, when their lock expires or their member's session ends.

A lock remembers the ranges that it was given. When they have very many pieces, one call releases
only a part and puts off the rest, so that other work does not wait long. The lock then stays, with
a deadline that has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sharegroup.share.locks import Lock
from sharegroup.share.record_state import Verb
from sharegroup.share.spans import Status
from sharegroup.share.state_changes import Changes
from sharegroup.share.stretches import Stretch
from sharegroup.share.window import Window

SPANS_MAX = 4_096
"""About how many spans one call releases, which takes some milliseconds."""
STRETCHES_MAX = 256
"""How many stretches one call looks at."""
_PASS_PER_REPLACE = 8
"""About how many stretches one pass visits in the time of one replacement."""


def take_back(
    window: Window,
    locks: list[Lock],
    changes: Changes,
    now_ms: int,
    verb_of: Callable[[Status], Verb],
) -> None:
    """Release what ``locks`` hold, or a part of it; locks that still hold records are due again.
    ``verb_of``: what becomes of records of a status."""
    held = sum(lock.held for lock in locks)
    ended = set(locks)
    looked_at = 0
    for first, last in regions(window, locks):
        if looked_at >= STRETCHES_MAX or len(changes.batches) >= SPANS_MAX:
            put_off(window, ended, first, now_ms)
            break
        old: list[Stretch] = []
        new: list[Stretch] = []
        for piece in window.pieces(first, last):
            if looked_at >= STRETCHES_MAX or len(changes.batches) >= SPANS_MAX:
                break
            looked_at += 1
            old.append(piece)
            new += _released(piece, ended, changes, verb_of)
        window.replace(old, new)
        if old[-1].last < last:
            put_off(window, ended, old[-1].last + 1, now_ms)
            break
    changes.expired = held - sum(lock.held for lock in locks)


def _released(
    piece: Stretch, ended: set[Lock], changes: Changes, verb_of: Callable[[Status], Verb]
) -> list[Stretch]:
    met = {
        code: (status, verb_of(status) if status.lock in ended else None)
        for code, status in piece.met()
    }
    return changes.moved(piece, piece.codes, met)


def regions(window: Window, locks: list[Lock]) -> Iterator[tuple[int, int]]:
    """The ranges of the window in which ``locks`` may hold records, ascending and disjoint."""
    start, last_of_all = window.start, window.end - 1
    ranges = sorted(
        (max(first, start), min(last, last_of_all))
        for lock in locks
        for first, last in lock.ranges
        if last >= start and first <= last_of_all
    )
    # One pass over everything from the first range to the last is cheaper than many small
    # replacements.
    if len(ranges) * _PASS_PER_REPLACE > len(window):
        ranges = [(ranges[0][0], max(last for _, last in ranges))]
    end = start
    for first, last in ranges:
        if last >= end:
            yield max(first, end), last
            end = last + 1


def put_off(window: Window, locks: set[Lock], first: int, now_ms: int) -> None:
    """Leave what ``locks`` hold from ``first`` on to the next call, which is due at once."""
    for lock in locks:
        if lock.held:
            lock.ranges = [(first, window.end - 1)]
            window.locks.end_at(lock, min(lock.deadline_ms, now_ms))
