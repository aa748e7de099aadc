"""Strings with one byte per offset: what to do with all of them at C speed.

A window with many pieces is handled as bytes, not as objects: ``bytes.translate`` changes the
statuses of thousands of offsets in a few microseconds. By convention, a string of one byte stands
for all offsets of its range.
"""

from __future__ import annotations

from itertools import accumulate, compress, count
from operator import add
from typing import Final, NamedTuple

_MARKS: Final = b"\0" + b"\xff" * 255
"""Translates each byte but 0 to all ones."""
_ONES: Final = b"\0" + b"\1" * 255
"""Translates each byte but 0 to 1."""
DOUBLED: Final = bytes([code << 1 & 0xFF for code in range(256)])
"""Translates each code to twice itself: the lowest bit is free."""
ODD: Final = bytes([code if code & 1 else 0 for code in range(256)])
"""Translates codes without the lowest bit to 0."""
_SPARSE: Final = 8
"""If at most one byte of this many is not 0, to split at these bytes is quicker than to go through
all offsets."""


class Runs(NamedTuple):
    """Runs of equal bytes, as columns: their first and last offsets, and their bytes."""

    firsts: list[int]
    lasts: list[int]
    codes: bytes


def distinct(codes: bytes) -> list[int]:
    """The different bytes of ``codes``, in the order of their first places.

    Makes one pass for each different byte, which is quicker than a set while these are few.
    """
    if len(codes) == 1:
        return [codes[0]]
    found = []
    while codes:
        found.append(codes[0])
        codes = codes.translate(None, codes[:1])
    return found


def combined(codes: bytes, others: bytes) -> bytes:
    """Bitwise or of two strings of one length, as of two long numbers."""
    either = int.from_bytes(codes, "big") | int.from_bytes(others, "big")
    return either.to_bytes(len(codes), "big")


def runs(first: int, last: int, codes: bytes) -> Runs:
    """The runs of equal bytes; ``codes`` has one byte for each of ``first`` … ``last``, or one for
    all."""
    if len(codes) == 1 or codes.count(codes[0]) == len(codes):
        return Runs([first], [last], codes[:1])
    changes = _differences(codes)
    firsts = [first, *_places(changes, first + 1)]
    if len(firsts) == len(codes):
        return Runs(firsts, firsts, codes)
    lasts = [*_places(changes, first), last]
    return Runs(firsts, lasts, bytes([codes[at - first] for at in firsts]))


def marked_runs(first: int, last: int, codes: bytes) -> Runs:
    """Like :func:`runs`, but without the runs of 0. At least one byte must not be 0."""
    if 0 not in codes:
        return runs(first, last, codes)
    # All bytes are compared at once, as long numbers. A byte that differs from the byte before it
    # begins a run, and a byte that differs from the byte after it ends a run.
    size, number = len(codes), int.from_bytes(codes, "big")
    marks = int.from_bytes(codes.translate(_MARKS), "big")
    firsts = _places(((number ^ number >> 8) & marks).to_bytes(size, "big"), first)
    marked = codes.translate(None, b"\0")
    if len(firsts) == len(marked):  # each run is one offset: its first is its last
        return Runs(firsts, firsts, marked)
    lasts = _places(((number ^ number << 8) & marks).to_bytes(size, "big"), first)
    if marked.count(marked[0]) == len(marked):
        return Runs(firsts, lasts, marked[: len(firsts)])
    return Runs(firsts, lasts, bytes([codes[at - first] for at in firsts]))


def run_count(codes: bytes) -> int:
    """How many runs of equal bytes there are."""
    return len(_differences(codes).translate(None, b"\0")) + 1


def _differences(codes: bytes) -> bytes:
    """For each byte but the first: not 0 if it differs from the byte before it."""
    number = int.from_bytes(codes, "big")
    return (number ^ number >> 8).to_bytes(len(codes), "big")[1:]


def _places(codes: bytes, first: int) -> list[int]:
    """The offsets of bytes other than 0; ``first`` is the offset of the first byte."""
    if len(codes.translate(None, b"\0")) > len(codes) // _SPARSE:
        return [*compress(range(first, first + len(codes)), codes)]
    *between, _ = codes.translate(_ONES).split(b"\1")
    return [*map(add, accumulate(map(len, between)), count(first))]
