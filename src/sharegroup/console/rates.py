"""How fast records come and go: the last values of two growing counts, and their differences."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final, NamedTuple

POINTS_MAX: Final = 60
"""Points of a sparkline."""


class Counts(NamedTuple):
    """What was seen at one moment.

    Attributes:
        at_s: seconds, of a clock that only grows.
        written: records that the topics have got so far.
        finished: records that the group has finished so far.
    """

    at_s: float
    written: int
    finished: int


class Rates:
    """The rates of one queue, in records a second."""

    def __init__(self) -> None:
        self._seen: deque[Counts] = deque(maxlen=POINTS_MAX + 1)

    def add(self, counts: Counts) -> None:
        """Note what is seen now. Counts that went back, as those of a topic made anew, begin a new
        history."""
        if self._seen:
            last = self._seen[-1]
            if counts.at_s <= last.at_s:
                return
            if counts.written < last.written or counts.finished < last.finished:
                self._seen.clear()
        self._seen.append(counts)

    def written(self) -> list[float]:
        """Records that came, by step, the latest last."""
        return [
            (after.written - before.written) / (after.at_s - before.at_s)
            for before, after in self._steps()
        ]

    def finished(self) -> list[float]:
        """Records that were finished, by step."""
        return [
            (after.finished - before.finished) / (after.at_s - before.at_s)
            for before, after in self._steps()
        ]

    def _steps(self) -> list[tuple[Counts, Counts]]:
        return list(pairwise(self._seen))
