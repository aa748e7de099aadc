"""Figures over a moving window, as Kafka's clients keep them: two samples of 30 seconds
(``metrics.sample.window.ms``, ``metrics.num.samples``), so that a figure speaks of the last 30 to
60 seconds. Time comes in, in seconds.
"""

from __future__ import annotations

import math
from typing import Final

WINDOW_S: Final = 30.0


class _Sample:
    __slots__ = ("count", "maximum", "start", "total")

    def __init__(self, start: float) -> None:
        self.start = start
        self.count = 0
        self.total = 0.0
        self.maximum = -math.inf


class Sensor:
    """Values, each recorded at a time. ``count`` and ``total`` are of all values ever recorded."""

    __slots__ = ("_before", "_now", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._before: _Sample | None = None
        self._now: _Sample | None = None

    def record(self, value: float, now_s: float) -> None:
        """Note one value."""
        sample = self._now
        if sample is None or now_s >= sample.start + WINDOW_S:
            self._before, sample = sample, _Sample(now_s)
            self._now = sample
        sample.count += 1
        sample.total += value
        if value > sample.maximum:
            sample.maximum = value
        self.count += 1
        self.total += value

    def average(self, now_s: float) -> float:
        """The mean of the window's values; NaN when nothing was recorded."""
        samples = self._samples(now_s)
        count = sum(one.count for one in samples)
        return sum(one.total for one in samples) / count if count else math.nan

    def maximum(self, now_s: float) -> float:
        """The largest of the window's values; NaN when nothing was recorded."""
        return max((one.maximum for one in self._samples(now_s)), default=math.nan)

    def rate(self, now_s: float) -> float:
        """The sum of the values per second; a window that has only begun counts as a whole one."""
        samples = self._samples(now_s)
        if not samples:
            return 0.0
        return sum(one.total for one in samples) / max(WINDOW_S, now_s - samples[0].start)

    def count_rate(self, now_s: float) -> float:
        """The number of values per second, as :meth:`rate` computes their sum."""
        samples = self._samples(now_s)
        if not samples:
            return 0.0
        return sum(one.count for one in samples) / max(WINDOW_S, now_s - samples[0].start)

    def _samples(self, now_s: float) -> list[_Sample]:
        oldest = now_s - 2 * WINDOW_S
        kept = (self._before, self._now)
        return [one for one in kept if one is not None and one.start > oldest]
