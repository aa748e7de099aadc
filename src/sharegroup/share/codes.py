"""Strings with one byte per offset: what to do with all of them at C speed.

A window with many pieces is handled as bytes, not as objects: ``bytes.translate`` changes the
statuses of thousands of offsets in a few microseconds. By convention, a string of one byte stands
for all offsets of its range.
"""

from __future__ import annotations

from itertools import compress, repeat
from operator import sub
from typing import NamedTuple


class Runs(NamedTuple):
    """Runs of equal bytes, as columns: their first and last offsets, and their bytes."""

    firsts: list[int]
    lasts: list[int]
    codes: bytes


def distinct(codes: bytes) -> list[int]:
    """The different bytes of ``codes``, in the order of their first places.

    One pass for each, which is quicker than a set as long as they are few.
    """
    if len(codes) == 1:
        return [codes[0]]
    found = []
    while codes:
        found.append(codes[0])
        codes = codes.translate(None, codes[:1])
    return found


def combined(codes: bytes, others: bytes) -> bytes:
    """Bitwise or, byte by byte, of two strings of one length: one long number with another."""
    either = int.from_bytes(codes, "big") | int.from_bytes(others, "big")
    return either.to_bytes(len(codes), "big")


def differences(codes: bytes) -> bytes:
    """For each byte but the first: not 0 if it differs from the byte before it."""
    change = int.from_bytes(codes[1:], "big") ^ int.from_bytes(codes[:-1], "big")
    return change.to_bytes(len(codes) - 1, "big")


def runs(first: int, last: int, codes: bytes) -> Runs:
    """The runs of equal bytes; ``codes`` has one byte for each of ``first`` … ``last``, or one for
    all."""
    if len(codes) == 1 or codes.count(codes[0]) == len(codes):
        return Runs([first], [last], codes[:1])
    changes = differences(codes)
    firsts = [first, *compress(range(first + 1, last + 1), changes)]
    lasts = [*map(sub, firsts[1:], repeat(1)), last]
    return Runs(firsts, lasts, codes[:1] + bytes(compress(codes[1:], changes)))


def run_count(codes: bytes) -> int:
    """How many runs of equal bytes there are."""
    return len(differences(codes).translate(None, b"\0")) + 1
