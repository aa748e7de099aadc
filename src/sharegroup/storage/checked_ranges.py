"""Which byte ranges of a segment have been checked since this process opened it.

Old data on disk is not trusted: the first read of a batch checks its CRC, its offsets and its
records. Later reads do not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

FILE_END: Final = 2**63


class Reach(NamedTuple):
    """The end of a checked range, and the next offset there."""

    end: int
    next_offset: int


class CheckedRanges:
    """Checked byte ranges of one segment: ascending and disjoint. Adjoining ones are joined."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._reaches: list[Reach] = []

    def __len__(self) -> int:
        return len(self._starts)

    def reach(self, position: int) -> Reach | None:
        """The end of the range that holds ``position`` or ends there; None if no range does."""
        at = bisect_right(self._starts, position) - 1
        if at < 0 or self._reaches[at].end < position:
            return None
        return self._reaches[at]

    def next_start(self, position: int) -> int:
        """Where the next range after ``position`` begins; past the end of any file if no range
        follows.
        """
        at = bisect_right(self._starts, position)
        return self._starts[at] if at < len(self._starts) else FILE_END

    def add(self, start: int, end: int, next_offset: int) -> None:
        """Note that bytes ``start`` … ``end`` (exclusive, batch boundaries) are checked."""
        first = bisect_left(self._reaches, start, key=lambda reach: reach.end)
        last = bisect_right(self._starts, end)
        reach = Reach(end, next_offset)
        if first < last:
            start = min(start, self._starts[first])
            reach = max(reach, self._reaches[last - 1])
        self._starts[first:last] = [start]
        self._reaches[first:last] = [reach]

    def cut(self, end: int) -> None:
        """Forget everything that reaches past ``end``."""
        keep = bisect_right(self._reaches, end, key=lambda reach: reach.end)
        del self._starts[keep:], self._reaches[keep:]
