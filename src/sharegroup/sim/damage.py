"""Bits that flip on a disk, in a batch of records that others follow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from sharegroup.sim.disk import MemoryDisk

_HEADER: Final = Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_LENGTH_END: Final = 12
_CONTROL: Final = 0x20


class Batch(NamedTuple):
    """Where a batch lies in a file, and which offsets it has."""

    path: str
    begin: int
    end: int
    first: int
    last: int
    control: bool


def batches(path: str, data: bytes) -> Iterator[Batch]:
    """Those of a segment's file."""
    at = 0
    while at + _HEADER.size <= len(data):
        base, length, _, _, _, attributes, delta = _HEADER.unpack_from(data, at)
        end = at + _LENGTH_END + length
        if length <= 0 or end > len(data):
            return
        yield Batch(path, at, end, base, base + delta, bool(attributes & _CONTROL))
        at = end


def flip(disk: MemoryDisk, folder: str, chance: random.Random) -> Batch | None:
    """Flip a bit of a batch of a partition. The last batch stays whole: that a power loss has torn
    it and that it was damaged are one thing to who reads it. So do markers of transactions.

    Args:
        folder: of the partition.
    """
    names = [one for one in disk.list(folder) if one.endswith(".log")]
    found = [
        one
        for name in names
        for one in batches(f"{folder}/{name}", disk.read_file(f"{folder}/{name}"))
    ]
    flippable = [one for one in found[:-1] if not one.control]
    if not flippable:
        return None
    one = chance.choice(flippable)
    # Not its offset, its length or its attributes: they say which offsets are hit.
    disk.flip(one.path, chance.randrange(one.begin + _HEADER.size, one.end), chance.randrange(8))
    return one
