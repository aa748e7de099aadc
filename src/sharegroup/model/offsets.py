"""Offsets and ranges of them.

The convention everywhere: ``first`` and ``last`` are inclusive, ``end`` is exclusive.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_OFFSET = -1
OFFSET_MAX = 2**63 - 1
"""What an int64 holds: past every offset."""


class OffsetRange(NamedTuple):
    """The offsets ``first`` … ``last``, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """How many offsets the range holds."""
        return self.last - self.first + 1
