"""Walks a segment batch by batch, checks CRCs and rebuilds the indexes."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharegroup.storage.damage import BrokenBatch, Damage
from sharegroup.storage.segment import Segment


@dataclass(slots=True)
class Scan:
    """What a scan found in a segment."""

    valid_bytes: int = 0
    """The end of the last valid batch."""
    next_offset: int = 0
    tail_bytes: int = 0
    """Bytes after the last valid batch."""
    batches: int = 0
    damages: list[Damage] = field(default_factory=list)


def scan_segment(segment: Segment, end_offset: int) -> Scan:
    """Check a whole segment and rebuild its indexes in memory; changes no file.

    ``end_offset``: all offsets must be below it. A gap in the offsets counts as damage, like a
    wrong CRC, except where compaction has removed offsets. The records inside a batch are not
    checked here, but when the batch is first read.
    """
    segment.indexes.begin()
    segment.first_timestamp = -1
    scan = Scan(next_offset=segment.base_offset)
    reader = segment.reader()
    position = 0
    while position < segment.size:
        try:
            header = reader.batch(position, scan.next_offset, records=False)
            if header.last_offset >= end_offset:
                raise BrokenBatch(position, "the next segment has its offsets")
        except BrokenBatch:
            found = reader.next_valid(position, scan.next_offset, end_offset)
            if found is None:
                break
            end, base_offset = found
            scan.damages.append(Damage(position, end, scan.next_offset, base_offset - 1))
            segment.indexes.index_next()
            position, scan.next_offset = end, base_offset
            continue
        segment.note(header, header.base_offset, position, header.max_timestamp)
        position += header.length
        scan.batches += 1
        scan.valid_bytes = position
        scan.next_offset = header.last_offset + 1
    scan.tail_bytes = segment.size - scan.valid_bytes
    return scan
