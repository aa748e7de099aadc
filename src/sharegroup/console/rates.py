"""How fast records come and go: the last values of two growing counts, and their differences."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sharegroup.model.ids import TopicPartition

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
        finished: records that the group has finished so far, at least.
        redelivered: records that were delivered once more; it begins anew whenever the broker loads
            a partition.
        loose: so many more may be finished: the broker tells how many are not, and how many there
            are, in two answers, and records come in between.
        counted: the partitions that are counted.
    """

    at_s: float
    written: int
    finished: int
    redelivered: int = 0
    loose: int = 0
    counted: frozenset[TopicPartition] = frozenset()


class Rates:
    """The rates of one queue, in records a second. There may be very many queues, so each keeps
    five arrays of numbers.

    Attributes:
        counted: the partitions that were counted last.
    """

    __slots__ = ("_at_s", "_finished", "_lags", "_most", "_redelivered", "_written", "counted")

    def __init__(self) -> None:
        self._at_s = array("d")
        self._written = array("d")
        self._finished = array("d")
        self._redelivered = array("d")
        self._lags = array("d")
        self._most = 0.0
        """The last of ``_finished`` may have been as much."""
        self.counted: frozenset[TopicPartition] = frozenset()

    def add(self, counts: Counts) -> None:
        """Note what is seen now. Counts that went back, as those of a topic made anew, and those
        of other partitions begin a new history."""
        columns = (self._at_s, self._written, self._finished, self._redelivered, self._lags)
        if self._at_s:
            if counts.at_s < self._at_s[-1] + STEP_S:
                return
            if self._went_back(counts) or counts.counted != self.counted:
                for column in columns:
                    del column[:]
        self.counted = counts.counted
        finished = self._surely_finished(counts)
        lag = counts.written - counts.finished - counts.loose  # as the broker has told it
        known = (counts.at_s, counts.written, finished, counts.redelivered, lag)
        for column, value in zip(columns, known, strict=True):
            column.append(value)
            del column[: -POINTS_MAX - 1]

    def _went_back(self, counts: Counts) -> bool:
        """By more than what came in the last two steps: in front of a cluster the broker's answer
        about the group may be older than the one about the topic."""
        came = counts.written - self._written[-2:][0]
        most = counts.finished + counts.loose
        return counts.written < self._written[-1] or most + came < self._finished[-1]

    def _surely_finished(self, counts: Counts) -> float:
        """More than before only if that is sure: what comes in between must not count as finished
        in a queue that stands still."""
        most = counts.finished + counts.loose
        if self._at_s and counts.finished <= self._most:
            self._most = max(self._finished[-1], min(self._most, most))
            return self._finished[-1]
        self._most = most
        return counts.finished

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
        return [int(lag) for lag in self._lags[1:]]

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
