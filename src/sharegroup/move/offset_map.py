"""Where the records of a partition are in its copy. A copy has the same records in the same order,
and no gaps: its offsets are dense, from its first one on.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right


class OffsetMap:
    """See the module. Runs of records without gaps, not single records.

    Args:
        start: the offset that the copy gives to the first record.
    """

    def __init__(self, start: int = 0) -> None:
        self._from = array("q")
        """The first offset of each run at the source; ascending."""
        self._to = array("q")
        """The offset of that record in the copy."""
        self._after = 0
        self.end = start
        """The offset that the next record gets in the copy."""

    def __len__(self) -> int:
        """The number of runs."""
        return len(self._from)

    @property
    def moved(self) -> bool:
        """Whether any record has another offset in the copy."""
        return any(first != copied for first, copied in zip(self._from, self._to, strict=True))

    def add(self, first: int, count: int) -> None:
        """The next ``count`` records are at ``first``, ``first + 1``, … at the source.

        Raises:
            ValueError: there is no record, or they do not lie behind those before.
        """
        if count < 1 or first < self._after:
            raise ValueError(f"{count} records at {first}, after {self._after - 1}")
        if not self._from or first != self._after:
            self._from.append(first)
            self._to.append(self.end)
        self._after = first + count
        self.end += count

    def place(self, offset: int) -> int:
        """Where the first record at or behind ``offset`` is in the copy; its end if there is
        none."""
        at = bisect_right(self._from, offset) - 1
        if at < 0:
            return self._to[0] if self._to else self.end
        after = self._to[at + 1] if at + 1 < len(self._to) else self.end
        return min(self._to[at] + offset - self._from[at], after)

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """The records ``first`` … ``last``, both included, in the copy; None: none was copied."""
        begin, end = self.place(first), self.place(last + 1)
        return (begin, end - 1) if begin < end else None
