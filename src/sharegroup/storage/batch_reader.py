"""Reads and checks a segment file batch by batch; finds the next valid batch after damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sharegroup.model.environment import DiskFile
from sharegroup.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from sharegroup.records.check import check_records
from sharegroup.storage.damage import BrokenBatch
from sharegroup.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, Buffer, check_crc, parse_header

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one read. A batch that is longer is read again as a whole."""
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

UNREADABLE: Final = (CorruptMessage, InvalidRecord, UnsupportedCompressionType)
"""The errors of an invalid batch."""

_MAGIC_POSITION: Final = 16
_MAGIC: Final = bytes((MAGIC,))
_EPOCH_HIGH: Final = b"\0\0"
"""The first two bytes of a leader epoch below 65,536, four bytes before the magic."""


class Offsets:
    """Decides which base offset may follow in a segment, and checks whole batches.

    Args:
        base_offset: the base offset of the segment.
        sparse_below: compaction has gone up to this offset (Kafka's cleaner-offset-checkpoint).
            Whole batches below it may be missing; from it on every offset is in a batch.
    """

    def __init__(self, base_offset: int, sparse_below: int = 0) -> None:
        self.base_offset = base_offset
        self.sparse_below = sparse_below

    def follows(self, header: BatchHeader, expected: int) -> bool:
        """Whether this batch may come where ``expected`` is the next offset."""
        base = header[0]
        if base + header[6] - self.base_offset > RELATIVE_OFFSET_MAX:  # base + last offset delta
            return False
        return base == expected or expected < base <= self.sparse_below

    def check(self, header: BatchHeader, batch: Buffer) -> None:
        """Check a whole batch: its CRC, then the records in it.

        Raises:
            CorruptMessage, InvalidRecord, UnsupportedCompressionType: the batch is invalid.
        """
        check_crc(batch)
        # Deduplication leaves holes in a batch wherever it is. What a producer sends was checked
        # for holes before the append.
        check_records(header, batch, dense=False)


class BatchReader:
    """Reads one segment file up to ``size``, in chunks, and checks its batches."""

    def __init__(self, file: DiskFile, size: int, offsets: Offsets) -> None:
        self._file = file
        self.size = size
        self._offsets = offsets
        self._chunk = b""
        self._start = 0

    def batch(self, position: int, expected: int, *, records: bool = True) -> BatchHeader:
        """The header of the valid batch at ``position``, where ``expected`` is the next offset.

        ``records``: check the records in the batch too, not only its CRC.

        Raises:
            BrokenBatch: the batch is invalid, or has another offset.
        """
        header = self._whole(position, records=records)
        if not self._offsets.follows(header, expected):
            reason = f"it begins at offset {header.base_offset}"
            raise BrokenBatch(position, reason)
        return header

    def bytes_of(self, position: int, header: BatchHeader) -> memoryview:
        """The batch that :meth:`batch` has just read; valid until the next call."""
        return self._bytes(position, header.length)

    def _whole(self, position: int, *, records: bool) -> BatchHeader:
        try:
            header = parse_header(self._bytes(position, HEADER_BYTES))
            if position + header.length > self.size:
                raise CorruptMessage(f"a batch of {header.length} bytes is incomplete")
            batch = self._bytes(position, header.length)
            if records:
                self._offsets.check(header, batch)
            else:
                check_crc(batch)
        except UNREADABLE as error:
            raise BrokenBatch(position, error) from error
        return header

    def next_valid(self, position: int, expected: int, end_offset: int) -> tuple[int, int] | None:
        """(position, base offset) of the first valid batch after a broken one at ``position``,
        with offsets from ``expected`` + 1 on and below ``end_offset``.

        If only offsets before the batch at ``position`` are missing, the result is that batch.
        Otherwise the place after the broken batch, by its length, is tried first, because its
        records may contain bytes that look like a batch. A batch that the batches after it
        contradict is passed over: else a wrong base offset, which no CRC covers, would make a tail
        of all that follows.
        """
        if self._after_hole(position, expected, end_offset):
            return position, self._whole(position, records=False).base_offset
        for candidate in self._candidates(position):
            with suppress(BrokenBatch):
                header = self._whole(candidate, records=False)
                fits = expected < header.base_offset and header.last_offset < end_offset
                if fits and not self._is_contradicted(header, candidate + header.length):
                    return candidate, header.base_offset
        return None

    def _is_contradicted(self, header: BatchHeader, following: int) -> bool:
        """Whether the valid batches from ``following`` on, right after this one, say that its base
        offset is wrong. Of two that do not fit, the third decides; without one, the one that makes
        offsets go back is wrong."""
        try:
            after = self._whole(following, records=False)
        except BrokenBatch:
            return False
        if self._offsets.follows(after, header.last_offset + 1):
            return False
        try:
            third = self._whole(following + after.length, records=False)
        except BrokenBatch:
            return after.base_offset <= header.last_offset
        return self._offsets.follows(third, after.last_offset + 1)

    def _after_hole(self, position: int, expected: int, end_offset: int) -> bool:
        """Whether the batch at ``position`` is valid and has the right offset. The batch after it
        decides, because no CRC covers the base offset.
        """
        try:
            header = self._whole(position, records=True)
            following = position + header.length
            if not expected < header.base_offset <= header.last_offset < end_offset:
                return False
            if following == self.size:
                return header.last_offset + 1 == end_offset
            return self._whole(following, records=False).base_offset == (header.last_offset + 1)
        except BrokenBatch:
            return False

    def _candidates(self, position: int) -> Iterator[int]:
        with suppress(CorruptMessage):
            yield position + parse_header(self._bytes(position, HEADER_BYTES)).length
        start = position + 1
        while start + HEADER_BYTES <= self.size:
            data = self._file.pread(CHUNK_BYTES, start)
            found = data.find(_MAGIC, _MAGIC_POSITION)
            while found >= 0:
                if data[found - 4 : found - 2] == _EPOCH_HIGH:
                    yield start + found - _MAGIC_POSITION
                found = data.find(_MAGIC, found + 1)
            start += max(len(data) - _MAGIC_POSITION, 1)

    def _bytes(self, position: int, size: int) -> memoryview:
        first = position - self._start
        if first < 0 or first + size > len(self._chunk):
            self._chunk = self._file.pread(max(CHUNK_BYTES, size), position)
            self._start, first = position, 0
        return memoryview(self._chunk)[first : first + size]
