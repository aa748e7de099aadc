"""Reads the records of an internal topic from its files, and skips damaged ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sharegroup.model.environment import Disk, DiskFile
from sharegroup.model.errors import KafkaError
from sharegroup.storage.checkup.partition_check import PartitionReport
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
        if segment.base_offset not in report.on_disk:
            continue
        jumps = {
            damage.position: damage.end_position
            for damage in segment.damages
            if damage.end_position > damage.position
        }
        file = disk.open(f"{report.folder}/{segment.base_offset:020d}.log")
        try:
            found = _of_file(file, segment.valid_bytes, jumps, unreadable)
            yield from (record for record in found if record[0] >= report.log_start)
        finally:
            file.close()


def _of_file(
    file: DiskFile, end: int, jumps: Mapping[int, int], unreadable: Unreadable
) -> Iterator[InternalRecord]:
    """The records in the first ``end`` bytes. ``jumps``: start of damaged bytes → their end."""
    position = 0
    while position < end:
        if position in jumps:
            position = jumps[position]
            continue
        header = parse_header(file.pread(HEADER_BYTES, position))
        if is_control(header):  # a transaction's marker is not a record of a group
            position += header.length
            continue
        batch = file.pread(header.length, position)
        try:
            for offset, _, key, value in decode_batch(batch):
                if key is not None:
                    yield offset, key, value
        except KafkaError as error:
            unreadable(header.base_offset, error)
        position += header.length
