"""Walks one segment file batch by batch: its sound batches, and the damage between them.

A start (``recovery``) and a check (``checkup``) walk by this code, so both find the same. The walk
writes nothing and decides nothing: a start truncates and quarantines, a check reports.

No flipped bit is corrected, because no checksum proves which one it was:

* The CRC does not cover the base offset. A batch with a wrong one may be a copy of another batch,
  as a write to the wrong place leaves it, and may fit both neighbours nevertheless.
* The CRC tells that covered bytes were changed, not which bits. A bit whose flip makes the CRC fit
  again may be the wrong one: up to 655 covered bytes if five bits were changed (Hamming distance
  6), beyond them if three were (distance 4), beyond 256 MiB if one was (distance 2). Source: P.
  Koopman, CRC Polynomial Zoo, CRC-32C: distances of 0x8f6e37a0 up to 5,243 and 2,147,483,615 bits.
"""

from __future__ import annotations

from collections.abc import Iterator

from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.storage.batch_reader import BatchReader
from sharegroup.storage.damage import BrokenBatch, Damage
from sharegroup.wire.batch import BatchHeader

Step = tuple[int, BatchHeader] | Damage
"""(position, header) of a sound batch, or a damage."""


class SegmentWalk:
    """The walk through one segment, and what it has found so far.

    Args:
        base_offset: the segment's base offset.
        end_offset: all offsets must be below it: the base offset of the next segment; OFFSET_MAX
            for the last one.
    """

    def __init__(self, base_offset: int, end_offset: int = OFFSET_MAX) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.size = 0
        """Bytes of the file."""
        self.valid_bytes = 0
        """The end of the last valid batch."""
        self.next_offset = base_offset
        self.batches = 0
        self.damages: list[Damage] = []
        """Ascending."""

    @property
    def tail_bytes(self) -> int:
        """Bytes after the last valid batch."""
        return self.size - self.valid_bytes

    def through(self, reader: BatchReader, *, records: bool) -> Iterator[Step]:
        """Walk the whole file. A gap in the offsets is damage, like a wrong CRC, except where
        compaction has removed offsets. What follows the last valid batch is not: it may be a torn
        tail.

        ``records``: check the records in each batch too. A start does not: they are checked when
        the batch is first read.
        """
        self.size = reader.size
        position = 0
        while position < self.size:
            try:
                header = reader.batch(position, self.next_offset, records=records)
                if header.last_offset >= self.end_offset:
                    raise BrokenBatch(position, "the next segment has its offsets")
            except BrokenBatch:
                damage = self._damage(reader, position, records=records)
                if damage is None:
                    return
                self.damages.append(damage)
                position, self.next_offset = damage.end_position, damage.last_offset + 1
                yield damage
                continue
            start, position = position, position + header.length
            self.batches += 1
            self.valid_bytes, self.next_offset = position, header.last_offset + 1
            yield start, header

    def reach(self, end_offset: int) -> None:
        """Let the segment end at ``end_offset``. Bytes and offsets missing after its last valid
        batch are damage.
        """
        if self.tail_bytes or self.next_offset < end_offset:
            lost = Damage(self.valid_bytes, self.size, self.next_offset, end_offset - 1)
            self.damages.append(lost)
        self.next_offset = end_offset

    def _damage(self, reader: BatchReader, position: int, *, records: bool) -> Damage | None:
        """The damage from ``position`` to the next valid batch; None if no valid batch follows."""
        found = reader.next_valid(position, self.next_offset, self.end_offset)
        if found is None and records:
            found = self._unreadable(reader, position)
        if found is None:
            return None
        end, following = found
        return Damage(position, end, self.next_offset, following - 1)

    def _unreadable(self, reader: BatchReader, position: int) -> tuple[int, int] | None:
        """(end, next offset) of the batch at ``position`` if only its records are wrong, else None.
        It is no torn tail: for a start, which does not check records, the log ends after it.
        """
        try:
            header = reader.batch(position, self.next_offset, records=False)
        except BrokenBatch:
            return None
        if header.last_offset >= self.end_offset:
            return None
        self.batches += 1
        self.valid_bytes = position + header.length
        return self.valid_bytes, header.last_offset + 1
