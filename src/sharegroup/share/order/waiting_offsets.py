"""The offsets of waiting records: ascending, in little memory, handled at C speed.

They are told apart by tenant (:func:`grouped`), and by whether they may still be delivered
(:func:`available`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import ne

from sharegroup.share.record_state import AVAILABLE
from sharegroup.share.window import Window


def grouped(offsets: Sequence[int], hashes: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """The offsets of each hash, ascending; at C speed but for a step for each hash."""
    if hashes.count(hashes[0]) == len(hashes):
        yield hashes[0], _short(offsets)
        return
    places = sorted(range(len(hashes)), key=hashes.__getitem__)
    ordered = [*map(hashes.__getitem__, places)]
    begins = [0, *compress(range(1, len(places)), map(ne, ordered[1:], ordered))]
    for begin, end in zip(begins, [*begins[1:], len(places)], strict=True):
        yield ordered[begin], _short([*map(offsets.__getitem__, places[begin:end])])


def _short(offsets: Sequence[int]) -> Sequence[int]:
    """The same ascending offsets, in little memory."""
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return range(offsets[0], offsets[-1] + 1)
    return array("q", offsets)


def without(offsets: Sequence[int], begin: int, end: int) -> Sequence[int]:
    """``offsets`` without those at the places from ``begin`` up to ``end``, exclusive."""
    if not begin:
        return offsets[end:]
    if end == len(offsets):
        return offsets[:begin]
    return array("q", [*offsets[:begin], *offsets[end:]])


def available(window: Window, offsets: Sequence[int]) -> Sequence[int]:
    """Of ascending offsets below the window's end, those whose records are available."""
    at = bisect_left(offsets, window.start)
    if at == len(offsets):
        return range(0)
    found: list[int] = []
    for piece in window.pieces(offsets[at], offsets[-1]):
        part = offsets[at : (at := bisect_right(offsets, piece.last, at))]
        if piece.uniform:
            if piece.statuses[0].state is AVAILABLE:
                found += part
            continue
        free = bytearray(256)
        for code, status in piece.met():
            free[code] = status.state is AVAILABLE
        marks = piece.codes.translate(bytes(free))
        found += compress(part, map(marks.__getitem__, map((-piece.first).__add__, part)))
    return found
