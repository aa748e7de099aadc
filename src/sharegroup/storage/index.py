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
from typing import Final

_TIME_ENTRY = struct.Struct(">qi")
OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = _TIME_ENTRY.size


class OffsetIndex:
    """Offset → file position."""

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative_offset: int, position: int) -> None:
        """The batch at ``position`` ends at ``relative_offset``."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """Where to begin walking for an offset: a batch boundary at or before its batch."""
        entry = bisect_right(self._offsets, relative_offset) - 1
        return self._positions[entry] if entry >= 0 else 0

    def boundary_before(self, position: int) -> int:
        """The last indexed batch boundary at or before ``position``; 0 when there is none."""
        entry = bisect_right(self._positions, position) - 1
        return self._positions[entry] if entry >= 0 else 0

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
        """Read a file of an index over ``log_bytes`` of log.

        Raises:
            ValueError: it cannot be one (Kafka's sanity check: length, first and last entry).
        """
        if len(data) % OFFSET_ENTRY_BYTES:
            raise ValueError(f"an offset index of {len(data)} bytes")
        entries = array("i", data)
        if sys.byteorder == "little":
            entries.byteswap()
        index = cls()
        index._offsets = entries[0::2]
        index._positions = entries[1::2]
        if entries and not (
            0 <= entries[0] <= entries[-2] and 0 < entries[1] <= entries[-1] < log_bytes
        ):
            raise ValueError("an offset index whose entries do not ascend")
        return index


class TimeIndex:
    """Timestamp → offset, and the largest timestamp of the segment."""

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        """Last offset, relative, of the first batch that has ``max_timestamp``; -1 when there is
        none.
        """

    def __len__(self) -> int:
        return len(self._timestamps)

    def saw(self, timestamp: int, relative_offset: int) -> None:
        """A batch that ends at ``relative_offset`` has ``timestamp`` as its largest."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = relative_offset

    def mark(self) -> None:
        """Write down the largest timestamp so far, unless it is written already."""
        timestamp = self.max_timestamp
        if timestamp >= 0 and (not self._timestamps or timestamp > self._timestamps[-1]):
            self._timestamps.append(timestamp)
            self._offsets.append(self.max_timestamp_offset)

    def offset_before(self, timestamp: int) -> int:
        """A relative offset such that no batch that ends before it has a record at or after
        ``timestamp``.
        """
        entry = bisect_left(self._timestamps, timestamp) - 1
        return self._offsets[entry] if entry >= 0 else 0

    def to_bytes(self) -> bytes:
        """The file's content."""
        pack = _TIME_ENTRY.pack
        return b"".join(map(pack, self._timestamps, self._offsets))

    @classmethod
    def from_bytes(cls, data: bytes, log_bytes: int) -> TimeIndex:
        """Read a file of an index over ``log_bytes`` of log; only an empty log has an empty one.

        Raises:
            ValueError: it cannot be one (Kafka's sanity check: length, first and last entry).
        """
        if len(data) % TIME_ENTRY_BYTES:
            raise ValueError(f"a time index of {len(data)} bytes")
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        if bool(data) != bool(log_bytes):
            raise ValueError("a time index without the last timestamp of its segment")
        if data:
            first, last = index._timestamps[0], index._timestamps[-1]
            if (len(index) > 1 and first >= last) or index._offsets[-1] < 0:
                raise ValueError("a time index whose entries do not ascend")
            index.max_timestamp = last
            index.max_timestamp_offset = index._offsets[-1]
        return index
