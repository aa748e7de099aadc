"""Finds the lowest available record of a window, for the order of the log."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from sharegroup.share.record_state import AVAILABLE
from sharegroup.share.window import Window, check_covered

_FREE_MIN: Final = 64


class FreeRanges:
    """A heap of ranges that became available; parts of them may have been acquired since.

    Invariant: every available offset of the window lies in one of the ranges.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._ranges = self._available()

    def offer(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Remember that ``ranges`` became available. Call it after the window has changed."""
        free, window = self._ranges, self._window
        # Ranges whose records were acquired since stay in the heap. When they are many, it is made
        # anew from the window; the bound keeps such walks rare.
        if len(free) + len(ranges) > _FREE_MIN + 2 * (window.end - window.start):
            self._ranges = self._available()
        elif len(ranges) > len(free):  # one heapify is cheaper than so many pushes
            free += ranges
            heapify(free)
        else:
            for first_and_last in ranges:
                heappush(free, first_and_last)

    def first(self) -> int | None:
        """The lowest available offset, or None."""
        free, window = self._ranges, self._window
        if not window.counts[AVAILABLE]:
            free.clear()
            return None
        while True:
            first, last = free[0]
            found = window.first_available_in(first, last)
            if found is not None:
                if found > first:  # the next call need not pass the acquired records again
                    heapreplace(free, (found, last))
                return found
            heappop(free)

    def _available(self) -> list[tuple[int, int]]:
        return [(span.first, span.last) for span in self._window if span.state is AVAILABLE]

    def check_invariants(self) -> None:
        """Assert the invariant of the class; costs a walk over the window."""
        check_covered([span for span in self._window if span.state is AVAILABLE], self._ranges)
