"""Delivery batches: which records were delivered together for the first time.

Kafka keeps its in-flight records in these batches. Here the window is made of spans, which merge
and split as states change, so the bounds are kept beside it. They matter for one thing only: how
many records a throttled portion holds (:mod:`sharegroup.share.order.throttle`). After a load each
state batch is a delivery batch.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise


class DeliveryBatches:
    """Bounds of delivery batches, adjoining and ascending; they tile at least the window."""

    def __init__(self, start: int) -> None:
        self._firsts: list[int] = []
        self._end = start

    def add(self, first: int, last: int) -> None:
        """Add a batch at the end, or the part of it that is past the last batch.

        Under record_limit a delivery batch extends to the end of its log batch, past the acquired
        records. Later acquisitions belong to the same delivery batch.
        """
        if last >= self._end:
            self._firsts.append(max(first, self._end))
            self._end = last + 1

    def move_start(self, start: int) -> None:
        """Forget batches that end below ``start``; the batch that contains it keeps its size."""
        if start >= self._end:
            self._firsts.clear()
            self._end = start
            return
        passed = bisect_right(self._firsts, start) - 1
        if 2 * passed > len(self._firsts):
            del self._firsts[:passed]

    def find(self, offset: int) -> tuple[int, int]:
        """(first, last) of the batch that holds ``offset``, which must be in the window."""
        index = bisect_right(self._firsts, offset)
        end = self._firsts[index] if index < len(self._firsts) else self._end
        return self._firsts[index - 1], end - 1

    def check_invariants(self, start: int, end: int) -> None:
        """Assert that batches ascend and tile the window ``start`` … ``end - 1``."""
        bounds = [*self._firsts, self._end]
        assert all(a < b for a, b in pairwise(bounds)), "batches do not ascend"
        assert start >= end or bounds[0] <= start, f"no delivery batch holds {start}"
        assert self._end >= end, f"delivery batches end at {self._end}, the window at {end}"
