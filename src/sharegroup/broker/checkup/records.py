"""Reads the records of an internal topic from its files, and skips damaged ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sharegroup.model.environment import Disk
from sharegroup.model.errors import KafkaError
from sharegroup.storage.checkup.partition_check import PartitionReport
from sharegroup.storage.checkup.segment_check import SegmentReport
from sharegroup.wire.batch import HEADER_BYTES, decode_batch, parse_header
from sharegroup.wire.markers import is_control

InternalRecord = tuple[int, bytes, bytes | None]
"""(offset, key, value)."""
Unreadable = Callable[[int, Exception], None]
"""Called for a batch that is intact, but whose records cannot be read."""


def records_of(
    disk: Disk, report: PartitionReport, unreadable: Unreadable
) -> Iterator[InternalRecord]:
    """Every readable record from the log start on. Raises OSError."""
    for segment in report.segments:
        if segment.base_offset in report.on_disk:
            yield from _of_segment(disk, report, segment, unreadable)


def _of_segment(
    disk: Disk, report: PartitionReport, segment: SegmentReport, unreadable: Unreadable
) -> Iterator[InternalRecord]:
    jumps = {
        damage.position: damage.end_position
        for damage in segment.damages
        if damage.end_position > damage.position
    }
    moved = {each.position: each.base_offset for each in segment.misplaced}
    file = disk.open(f"{report.folder}/{segment.base_offset:020d}.log")
    try:
        position = 0
        while position < segment.valid_bytes:
            if position in jumps:
                position = jumps[position]
                continue
            header = parse_header(file.pread(HEADER_BYTES, position))
            if is_control(header):  # a transaction's marker is not a record of a group
                position += header.length
                continue
            batch = file.pread(header.length, position)
            shift = moved.get(position, header.base_offset) - header.base_offset
            try:
                for offset, _, key, value in decode_batch(batch):
                    if offset + shift >= report.log_start and key is not None:
                        yield offset + shift, key, value
            except KafkaError as error:
                unreadable(header.base_offset + shift, error)
            position += header.length
    finally:
        file.close()
