"""Bits that flip on a disk, in a batch of records that others follow."""

from __future__ import annotations

import random
from collections.abc import Iterator

from sharegroup.model.errors import CorruptMessage
from sharegroup.sim.disk import MemoryDisk
from sharegroup.wire.batch import HEADER_BYTES, BatchHeader, parse_header
from sharegroup.wire.markers import is_control


def _batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a segment's file, each with its position, up to a torn end."""
    at = 0
    while at < len(data):
        try:
            header = parse_header(data, at)
        except CorruptMessage:
            return
        if at + header.length > len(data):
            return
        yield at, header
        at += header.length


def flip(disk: MemoryDisk, folder: str, chance: random.Random) -> BatchHeader | None:
    """Flip a bit of a batch of a partition. The last batch stays whole: that a power loss has torn
    it and that it was damaged are one thing to who reads it. So do markers of transactions.

    Args:
        folder: of the partition.
    """
    paths = [f"{folder}/{name}" for name in disk.list(folder) if name.endswith(".log")]
    found = [(path, at, one) for path in paths for at, one in _batches(disk.read_file(path))]
    # What the cleaner has left of a batch may be its header alone.
    flippable = [
        each for each in found[:-1] if not is_control(each[2]) and each[2].length > HEADER_BYTES
    ]
    if not flippable:
        return None
    path, at, one = chance.choice(flippable)
    # Not in its header, which says which offsets are hit.
    disk.flip(path, chance.randrange(at + HEADER_BYTES, at + one.length), chance.randrange(8))
    return one
