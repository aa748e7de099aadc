"""How fast records come and go: the last values of two growing counts, and their differences."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

POINTS_MAX: Final = 150
"""Steps that are remembered: five minutes, if one looks every two seconds."""
STEP_S: Final = 1.0
"""The shortest step. Two viewers, of the list and of one queue, may look right after each other."""
SPARK_POINTS: Final = 30
"""Steps of a sparkline."""


class Counts(NamedTuple):
    """What was seen at one moment.

    Attributes:
        at_s: seconds, of a clock that only grows.
        written: records that the topics have got so far.
        finished: records that the group has finished so far.
        redelivered: records that were delivered once more; it begins anew whenever the broker loads
            a partition.
    """

    at_s: float
    written: int
    finished: int
    redelivered: int = 0


class Rates:
    """The rates of one queue, in records a second. There may be very many queues, so each keeps
    four arrays of numbers."""

    __slots__ = ("_at_s", "_finished", "_redelivered", "_written")

    def __init__(self) -> None:
        self._at_s = array("d")
        self._written = array("d")
        self._finished = array("d")
        self._redelivered = array("d")

    def add(self, counts: Counts) -> None:
        """Note what is seen now. Counts that went back, as those of a topic made anew, begin a new
        history."""
        columns = (self._at_s, self._written, self._finished, self._redelivered)
        if self._at_s:
            if counts.at_s < self._at_s[-1] + STEP_S:
                return
            if counts.written < self._written[-1] or counts.finished < self._finished[-1]:
                for column in columns:
                    del column[:]
        for column, value in zip(columns, counts, strict=True):
            column.append(value)
            del column[: -POINTS_MAX - 1]

    def written(self, steps: int = POINTS_MAX) -> list[float]:
        """Records that came a second, in each of the last ``steps`` steps, the latest last."""
        return self._rates(self._written, steps)

    def finished(self, steps: int = POINTS_MAX) -> list[float]:
        """Records that were finished a second, in each of the last ``steps`` steps."""
        return self._rates(self._finished, steps)

    def redelivered(self, steps: int = POINTS_MAX) -> list[float]:
        """Records that were delivered once more a second, in each of the last ``steps`` steps."""
        return [max(0.0, rate) for rate in self._rates(self._redelivered, steps)]

    def lags(self) -> list[int]:
        """Records that were not finished, at the end of each step."""
        counts = zip(self._written[1:], self._finished[1:], strict=True)
        return [int(written - finished) for written, finished in counts]

    def ages_s(self) -> list[float]:
        """How long ago each step ended, seen from the latest one."""
        return [self._at_s[-1] - at_s for at_s in self._at_s[1:]]

    def _rates(self, counts: Sequence[float], steps: int) -> list[float]:
        """Three digits are enough for a drawing, and there may be many of them."""
        times, counts = self._at_s[-steps - 1 :], counts[-steps - 1 :]
        if counts and counts[0] == counts[-1] and min(counts) == counts[0]:
            return [0.0] * (len(counts) - 1)  # most of very many queues are idle
        return [
            float(f"{(after - before) / (end - begin):.3g}")
            for (before, after), (begin, end) in zip(pairwise(counts), pairwise(times), strict=True)
        ]
