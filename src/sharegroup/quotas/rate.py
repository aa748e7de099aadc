"""How much of something there was per second, lately (Kafka classes Rate, SampledStat)."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from sharegroup.model.config import INT_MAX


class RateWindow(NamedTuple):
    """The time that a rate looks back: ``samples`` samples of ``sample_ms`` each
    (``quota.window.num``, ``quota.window.size.seconds``)."""

    samples: int
    sample_ms: int

    @property
    def whole_ms(self) -> int:
        """After this time without an event, nothing is left of a rate."""
        return self.samples * self.sample_ms


class _Sample:
    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.last_ms = start_ms
        self.amount = 0.0


class Rate:
    """Amounts over the last samples. Times must not run backwards."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def record(self, amount: float, window: RateWindow, now_ms: int) -> None:
        """Add ``amount`` at ``now_ms``."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= window.sample_ms:
            samples.append(_Sample(now_ms))
            self._forget(window, now_ms)
        samples[-1].amount += amount
        samples[-1].last_ms = now_ms

    def amount(self, window: RateWindow, now_ms: int) -> float:
        """The sum over the window."""
        self._forget(window, now_ms)
        return sum(sample.amount for sample in self._samples)

    def window_ms(self, window: RateWindow, now_ms: int) -> int:
        """The time that :meth:`amount` is divided by: the time since the oldest sample began, and a
        whole sample for each earlier sample that is missing. So a first burst may use the whole
        window."""
        self._forget(window, now_ms)
        since_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = window.samples - 1 - since_ms // window.sample_ms
        return max(since_ms + max(missing, 0) * window.sample_ms, 1)

    def throttle_ms(
        self, quota: float, window: RateWindow, now_ms: int, *, extra: float = 0
    ) -> int:
        """How long nothing may happen until the rate is ``quota`` per second again; 0 if the rate
        is not over the quota (Kafka class QuotaUtils, throttleTime).

        Args:
            extra: an amount that is not recorded, and counts as if it were.
        """
        window_ms = self.window_ms(window, now_ms)
        observed = (self.amount(window, now_ms) + extra) * 1000 / window_ms
        if observed <= quota:
            return 0
        return min(round(min((observed - quota) / quota, INT_MAX) * window_ms), INT_MAX)

    def left(self, quota: float, window: RateWindow, now_ms: int) -> float:
        """The amount that may be recorded now without a throttle; negative over the quota."""
        fits = quota * self.window_ms(window, now_ms) / 1000
        return fits - self.amount(window, now_ms)

    def is_idle(self, window: RateWindow, now_ms: int) -> bool:
        """Whether all recorded amounts lie before the window."""
        return not self._samples or now_ms - self._samples[-1].last_ms >= window.whole_ms

    def check_invariants(self, window: RateWindow) -> None:
        """Raise AssertionError if samples overlap or are too many."""
        samples = list(self._samples)
        assert len(samples) <= window.samples + 1, len(samples)
        for sample in samples:
            assert sample.start_ms <= sample.last_ms < sample.start_ms + window.sample_ms
        for before, after in pairwise(samples):
            assert before.last_ms < after.start_ms
            assert after.start_ms - before.start_ms >= window.sample_ms

    def _forget(self, window: RateWindow, now_ms: int) -> None:
        """Drop the samples without an event in the window. A sample that overlaps it counts."""
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= window.whole_ms:
            samples.popleft()
