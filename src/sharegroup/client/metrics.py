"""A consumer's metrics, with the names of Kafka's consumers: what share consumers and group
consumers have in common.

One call per request, poll or heartbeat; no cost per record.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from sharegroup.client.sensors import Sensor

_HOUR_S: Final = 3_600

Metrics = dict[tuple[str, str], float]


class ReadingMetrics(ABC):
    """See the module. Times are the event loop's, in seconds; latencies and pauses are reported in
    milliseconds.

    Args:
        now: the time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.answered_at: float | None = None
        """When any broker last answered any request; None: never."""
        self._between_polls = Sensor()
        self._poll_idle = Sensor()
        self._poll_began: float | None = None
        self._poll_pause = 0.0
        self._heartbeats = Sensor()
        self._heartbeat_sent: float | None = None
        self._rebalances = Sensor()
        self._latency = Sensor()
        self._throttle = Sensor()
        self._sizes = Sensor()
        self._records = Sensor()

    # --- what happens -----------------------------------------------------------------------------

    def poll_begins(self) -> None:
        """The application asks for records."""
        now = self._now()
        self._poll_pause = 0.0 if self._poll_began is None else now - self._poll_began
        self._between_polls.record(self._poll_pause * 1000, now)
        self._poll_began = now

    def poll_ends(self) -> None:
        """The application has got its records, or an error."""
        now = self._now()
        idle = now - (self._poll_began or now)
        whole = idle + self._poll_pause
        if whole > 0:
            self._poll_idle.record(idle / whole, now)

    def heartbeat_sent(self) -> None:
        """A heartbeat is on its way."""
        self._heartbeat_sent = self._now()

    def heartbeat_answered(self) -> None:
        """The heartbeat's answer has come."""
        now = self.answered_at = self._now()
        self._heartbeats.record((now - (self._heartbeat_sent or now)) * 1000, now)

    def rebalanced(self) -> None:
        """The assignment has changed."""
        self._rebalances.record(1, self._now())

    def request_answered(self, latency_s: float, throttle_ms: int) -> None:
        """A request for records, or about records, was answered."""
        now = self.answered_at = self._now()
        self._latency.record(latency_s * 1000, now)
        self._throttle.record(throttle_ms, now)

    # --- what is told -----------------------------------------------------------------------------

    @abstractmethod
    def _groups(self, now: float) -> dict[str, dict[str, float]]:
        """The values by name, of each group."""

    def read(self) -> Metrics:
        """All values by (group, name); an average without samples is NaN."""
        return {
            (group, name): value
            for group, found in self._groups(self._now()).items()
            for name, value in found.items()
        }

    def _poll(self, now: float) -> dict[str, float]:
        return {
            "last-poll-seconds-ago": _ago(self._poll_began, now),
            "time-between-poll-avg": self._between_polls.average(now),
            "time-between-poll-max": self._between_polls.maximum(now),
            "poll-idle-ratio-avg": self._poll_idle.average(now),
        }

    def _coordinator(self, now: float) -> dict[str, float]:
        return {
            "heartbeat-response-time-max": self._heartbeats.maximum(now),
            "heartbeat-rate": self._heartbeats.count_rate(now),
            "heartbeat-total": self._heartbeats.count,
            "last-heartbeat-seconds-ago": _ago(self._heartbeat_sent, now),
            "rebalance-total": self._rebalances.count,
            "rebalance-rate-per-hour": self._rebalances.count_rate(now) * _HOUR_S,
        }

    def _fetching(self, now: float) -> dict[str, float]:
        return {
            "fetch-size-avg": self._sizes.average(now),
            "fetch-size-max": self._sizes.maximum(now),
            "bytes-consumed-rate": self._sizes.rate(now),
            "bytes-consumed-total": self._sizes.total,
            "records-consumed-rate": self._records.rate(now),
            "records-consumed-total": self._records.total,
            "fetch-latency-avg": self._latency.average(now),
            "fetch-latency-max": self._latency.maximum(now),
            "fetch-rate": self._latency.count_rate(now),
            "fetch-total": self._latency.count,
            "fetch-throttle-time-avg": self._throttle.average(now),
            "fetch-throttle-time-max": self._throttle.maximum(now),
        }


def _ago(then: float | None, now: float) -> float:
    return -1 if then is None else math.floor(now - then)
