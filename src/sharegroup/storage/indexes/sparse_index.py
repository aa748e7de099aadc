"""The two sparse indexes of a segment, in Kafka's file formats (Kafka classes OffsetIndex,
TimeIndex).

* offset index: (last offset of a batch − base offset, i32; position of that batch, i32), about one
  per 4 KiB of log;
* time index: (largest timestamp so far, i64; last offset of the batch that has it − base offset,
  i32).

Both live in memory and are written when the segment is sealed or the log closed. Entries ascend
strictly.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from typing import Final, NamedTuple

_TIME_ENTRY = struct.Struct(">qi")
_OFFSET_ENTRY = struct.Struct(">ii")
OFFSET_ENTRY_BYTES: Final = _OFFSET_ENTRY.size
TIME_ENTRY_BYTES: Final = _TIME_ENTRY.size


class OffsetEntry(NamedTuple):
    """The batch at ``position`` ends at ``relative_offset``. A hint, to be verified by the log."""

    relative_offset: int
    position: int


class TimeEntry(NamedTuple):
    """The batch that ends at ``relative_offset`` has ``timestamp`` as its largest, and no batch
    before it has a larger one. A hint, like :class:`OffsetEntry`.
    """

    timestamp: int
    relative_offset: int


class OffsetIndex:
    """Offset → file position."""

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry: the batch at ``position`` ends at ``relative_offset``."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def before(self, relative_offset: int) -> OffsetEntry | None:
        """The last entry at or before the batch of an offset, where the search for it starts."""
        return self._entry(bisect_right(self._offsets, relative_offset) - 1)

    def boundary_before(self, position: int) -> OffsetEntry | None:
        """The last indexed batch boundary at or before ``position``."""
        return self._entry(bisect_right(self._positions, position) - 1)

    def drop(self, entry: OffsetEntry) -> None:
        """Remove an entry that does not match the log."""
        at = bisect_left(self._offsets, entry.relative_offset)
        del self._offsets[at], self._positions[at]

    @staticmethod
    def last_entry(data: bytes) -> OffsetEntry | None:
        """The last entry of a file's content, without reading the others."""
        if not data or len(data) % OFFSET_ENTRY_BYTES:
            return None
        return OffsetEntry(*_OFFSET_ENTRY.unpack_from(data, len(data) - OFFSET_ENTRY_BYTES))

    def _entry(self, at: int) -> OffsetEntry | None:
        return OffsetEntry(self._offsets[at], self._positions[at]) if at >= 0 else None

    def to_bytes(self) -> bytes:
        """The file's content."""
        entries = array("i", bytes(OFFSET_ENTRY_BYTES * len(self._offsets)))
        entries[0::2] = self._offsets
        entries[1::2] = self._positions
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, log_bytes: int) -> OffsetIndex:
        """Read the index file of a log of ``log_bytes`` bytes.

        Raises:
            ValueError: the length is wrong, or the entries do not ascend.
        """
        if len(data) % OFFSET_ENTRY_BYTES:
            raise ValueError(f"an offset index of {len(data)} bytes ends inside an entry")
        entries = array("i", data)
        if sys.byteorder == "little":
            entries.byteswap()
        index = cls()
        index._offsets = entries[0::2]
        index._positions = entries[1::2]
        if entries and not (
            entries[0] >= 0
            and entries[1] > 0
            and entries[-1] < log_bytes
            and _ascend(index._offsets)
            and _ascend(index._positions)
        ):
            raise ValueError("the entries of an offset index do not ascend, or exceed the log")
        return index


class TimeIndex:
    """Timestamp → offset, and the largest timestamp of the segment."""

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        """Last offset, relative, of the first batch that has ``max_timestamp``; -1 if the segment
        has no batch with a timestamp.
        """

    def __len__(self) -> int:
        return len(self._timestamps)

    def saw(self, timestamp: int, relative_offset: int) -> None:
        """Note a batch that ends at ``relative_offset`` and has ``timestamp`` as its largest."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = relative_offset

    def mark(self) -> None:
        """Add an entry for the largest timestamp so far, unless the last entry has it."""
        timestamp = self.max_timestamp
        if timestamp >= 0 and (not self._timestamps or timestamp > self._timestamps[-1]):
            self._timestamps.append(timestamp)
            self._offsets.append(self.max_timestamp_offset)

    def before(self, timestamp: int) -> TimeEntry | None:
        """The last entry below ``timestamp``. All batches up to the entry's offset have only
        records below ``timestamp``.
        """
        at = bisect_left(self._timestamps, timestamp) - 1
        return TimeEntry(self._timestamps[at], self._offsets[at]) if at >= 0 else None

    def before_offset(self, relative_offset: int) -> TimeEntry | None:
        """The last entry of a batch that ends before an offset."""
        at = bisect_left(self._offsets, relative_offset) - 1
        return TimeEntry(self._timestamps[at], self._offsets[at]) if at >= 0 else None

    def last(self) -> TimeEntry | None:
        """The entry of the largest timestamp."""
        if not self._timestamps:
            return None
        return TimeEntry(self._timestamps[-1], self._offsets[-1])

    def to_bytes(self) -> bytes:
        """The file's content."""
        pack = _TIME_ENTRY.pack
        return b"".join(map(pack, self._timestamps, self._offsets))

    @classmethod
    def from_bytes(cls, data: bytes, log_bytes: int) -> TimeIndex:
        """Read the index file of a log of ``log_bytes`` bytes. An empty one is right if no batch of
        the log has a timestamp.

        Raises:
            ValueError: the length is wrong, or the entries do not ascend.
        """
        if len(data) % TIME_ENTRY_BYTES:
            raise ValueError(f"a time index of {len(data)} bytes ends inside an entry")
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        if data:
            if not log_bytes:
                raise ValueError("a time index with entries of an empty log")
            if not _ascend(index._timestamps) or not _ascend(index._offsets):
                raise ValueError("the entries of a time index do not ascend")
            if index._offsets[0] < 0:
                raise ValueError("a time index has an offset below its segment's base offset")
            index.max_timestamp = index._timestamps[-1]
            index.max_timestamp_offset = index._offsets[-1]
        return index


def _ascend(numbers: array[int]) -> bool:
    return all(map(lt, numbers, numbers[1:]))
