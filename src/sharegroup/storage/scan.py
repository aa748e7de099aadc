"""Walk a segment batch by batch, CRCs checked, and find the next valid batch after a damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.errors import CorruptMessage
from sharegroup.storage.segment import RELATIVE_OFFSET_MAX, Damage, Segment
from sharegroup.wire.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    check_crc,
    parse_header,
)

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Read at once; a longer batch is read again whole."""

_MAGIC_POSITION: Final = 16
_EPOCH_AND_MAGIC: Final = bytes((0, 0, 0, 0, MAGIC))
"""What stands at byte 12 of every batch we have written: leader epoch 0, magic 2."""
_EPOCH_POSITION: Final = _MAGIC_POSITION - 4


@dataclass(slots=True)
class Scan:
    """What a segment's bytes are."""

    valid_bytes: int = 0
    """The end of the last valid batch."""
    next_offset: int = 0
    tail_bytes: int = 0
    """Bytes after the last valid batch."""
    batches: int = 0
    damages: list[Damage] = field(default_factory=list)


def scan_segment(segment: Segment) -> Scan:
    """Check all of a segment and make its indexes again; changes no file.

    Our logs have no holes: an offset that does not follow the one before is as wrong as a CRC.
    """
    segment.begin_indexes()
    segment.first_timestamp = -1
    scan = Scan(next_offset=segment.base_offset)
    reader = _Reader(segment)
    position = 0
    while position < segment.size:
        header = reader.batch(position, scan.next_offset.__eq__)
        if header is None:
            found = reader.next_valid(position, scan.next_offset)
            if found is None:
                break
            end, header = found
            lost = Damage(position, end, scan.next_offset, header.base_offset - 1)
            scan.damages.append(lost)
            segment.index_next()
            position = end
        segment.note(header, header.base_offset, position, header.max_timestamp)
        position += header.length
        scan.batches += 1
        scan.valid_bytes = position
        scan.next_offset = header.last_offset + 1
    scan.tail_bytes = segment.size - scan.valid_bytes
    return scan


class _Reader:
    """Chunks of one file, and what is valid in them."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._chunk = b""
        self._start = 0

    def batch(self, position: int, fits: Callable[[int], bool]) -> BatchHeader | None:
        """The header of the valid batch at ``position``, or None. ``fits`` judges its base offset,
        which no CRC covers.
        """
        try:
            header = parse_header(self._bytes(position, HEADER_BYTES))
            if (
                position + header.length > self._segment.size
                or not fits(header.base_offset)
                or header.last_offset - self._segment.base_offset > RELATIVE_OFFSET_MAX
            ):
                return None
            check_crc(self._bytes(position, header.length))
        except CorruptMessage:
            return None
        return header

    def next_valid(self, position: int, expected_offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first valid batch after a damaged one at ``position``.

        The damaged batch's own length is tried first: its records may hold what looks like a batch.
        """
        for candidate in self._candidates(position):
            header = self.batch(candidate, expected_offset.__lt__)
            if header is not None:
                return candidate, header
        return None

    def _candidates(self, position: int) -> Iterator[int]:
        with suppress(CorruptMessage):
            yield position + parse_header(self._bytes(position, HEADER_BYTES)).length
        start = position + 1
        while start + HEADER_BYTES <= self._segment.size:
            data = self._segment.file.pread(CHUNK_BYTES, start)
            found = data.find(_EPOCH_AND_MAGIC, _EPOCH_POSITION)
            while found >= 0:
                yield start + found - _EPOCH_POSITION
                found = data.find(_EPOCH_AND_MAGIC, found + 1)
            start += max(len(data) - _MAGIC_POSITION, 1)

    def _bytes(self, position: int, size: int) -> memoryview:
        first = position - self._start
        if first < 0 or first + size > len(self._chunk):
            self._chunk = self._segment.file.pread(max(CHUNK_BYTES, size), position)
            self._start, first = position, 0
        return memoryview(self._chunk)[first : first + size]
