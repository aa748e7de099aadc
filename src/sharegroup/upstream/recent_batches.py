"""The newest batches that were read from one partition: whoever is a little behind need not
ask the cluster again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.wire.batch import batch_bounds, parse_headers, walk
from sharegroup.wire.markers import is_transactional


class RecentBatches:
    """Whole batches, one behind the other.

    Attributes:
        begin: the first offset that they are known to hold; there may be a gap.
        end: behind the last offset. Equal to ``begin``: there is nothing.
    """

    def __init__(self, begin: int = 0, data: bytes = b"") -> None:
        self.begin = self.end = begin
        self._data = bytearray()
        self._bounds: list[tuple[int, int]] = []
        self._positions = [0]
        """Where each batch begins, and where the last one ends."""
        if data:
            self.append(data)

    def append(self, data: bytes) -> None:
        """Add the batches that were read from ``end`` on, at least one.

        Raises:
            CorruptMessage: they are no whole batches.
        """
        found = walk(data)
        size = len(self._data)
        self._data += data
        self._bounds += found.bounds
        self._positions[-1:] = [size + one for one in (*found.positions, len(data))]
        self.end = found.end_offset

    def size_from(self, offset: int) -> int:
        """How many bytes the batches have that hold ``offset`` and later ones."""
        return len(self._data) - self._positions[self._at(offset)]

    def forget_before(self, offset: int) -> None:
        """Forget the batches before an offset, once they take more room than the others."""
        at = self._at(offset)
        size = self._positions[at]
        if 2 * size > len(self._data):
            del self._data[:size]
            del self._bounds[:at]
            self._positions = [one - size for one in self._positions[at:]]
            self.begin = max(self.begin, offset)

    def read(self, offset: int, end: int, bytes_max: int) -> tuple[bytes, int]:
        """The batches from the one that holds ``offset`` to before ``end``, at most so many bytes,
        but at least one batch if there is one; and the offset behind them."""
        begin = self._at(offset)
        within = bisect_left(self._bounds, (end,))
        fitting = bisect_right(self._positions, self._positions[begin] + bytes_max) - 1
        stop = min(within, max(fitting, begin + 1))
        if stop <= begin:
            return b"", offset
        with memoryview(self._data) as view:
            data = bytes(view[self._positions[begin] : self._positions[stop]])
        return data, self._bounds[stop - 1][1] + 1

    def _at(self, offset: int) -> int:
        """The number of the first batch with an offset that is not before this one."""
        at = max(0, bisect_right(self._bounds, (offset, OFFSET_MAX)) - 1)
        return at + bool(self._bounds and self._bounds[at][1] < offset)


def has_plain_to(end: int, data: bytes) -> bool:
    """Whether the batches go to this end, and none of them is of a transaction."""
    headers = parse_headers(data)
    if not headers or any(map(is_transactional, headers)):
        return False
    return batch_bounds(data)[-1][1] + 1 >= end
