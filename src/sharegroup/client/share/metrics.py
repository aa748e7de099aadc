"""A share consumer's metrics, with the names of Kafka's share consumer.

One call per request, poll or heartbeat; no cost per record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.client.sensors import Sensor

POLL_GROUP: Final = "consumer-share-metrics"
COORDINATOR_GROUP: Final = "consumer-share-coordinator-metrics"
FETCH_GROUP: Final = "consumer-share-fetch-manager-metrics"
_HOUR_S: Final = 3_600

Metrics = dict[tuple[str, str], float]


class ConsumerMetrics:
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
        self._sent = Sensor()
        self._failed = Sensor()
        self._damaged = Sensor()

    # --- what happens -----------------------------------------------------------------------------

    def poll_begins(self) -> None:
        """The application asks for records."""
        now = self._now()
        self._poll_pause = 0.0 if self._poll_began is None else now - self._poll_began
        self._between_polls.record(self._poll_pause * 1000, now)
        self._poll_began = now

    def poll_ends(self) -> None:
        """The application has its answer."""
        now = self._now()
        idle = now - (self._poll_began or now)
        whole = idle + self._poll_pause
        if whole > 0:
            self._poll_idle.record(idle / whole, now)

    def heartbeat_sent(self) -> None:
        """A heartbeat is on its way."""
        self._heartbeat_sent = self._now()

    def heartbeat_answered(self) -> None:
        """Its answer has come."""
        now = self.answered_at = self._now()
        self._heartbeats.record((now - (self._heartbeat_sent or now)) * 1000, now)

    def rebalanced(self) -> None:
        """The assignment has changed."""
        self._rebalances.record(1, self._now())

    def request_answered(self, latency_s: float, throttle_ms: int) -> None:
        """A ShareFetch or ShareAcknowledge was answered."""
        now = self.answered_at = self._now()
        self._latency.record(latency_s * 1000, now)
        self._throttle.record(throttle_ms, now)

    def fetched(self, size: int, records: int) -> None:
        """A fetch returned ``size`` bytes, with this many records acquired by us."""
        now = self._now()
        self._sizes.record(size, now)
        self._records.record(records, now)

    def damaged(self, batches: int) -> None:
        """This many record batches could not be read, and were rejected."""
        self._damaged.record(batches, self._now())

    def acknowledgements_sent(self, ranges: Sequence[AcknowledgedRange]) -> None:
        """These acknowledgements were sent."""
        self._sent.record(_offsets(ranges), self._now())

    def acknowledgements_failed(self, ranges: Sequence[AcknowledgedRange]) -> None:
        """These acknowledgements were refused, or could not be sent."""
        self._failed.record(_offsets(ranges), self._now())

    # --- what is told -----------------------------------------------------------------------------

    def read(self) -> Metrics:
        """All values by (group, name); an average without samples is NaN."""
        now = self._now()
        values: Metrics = {}
        for group, found in (
            (POLL_GROUP, self._poll(now)),
            (COORDINATOR_GROUP, self._coordinator(now)),
            (FETCH_GROUP, self._fetching(now)),
        ):
            values.update({(group, name): value for name, value in found.items()})
        return values

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
            "records-per-request-avg": self._records.average(now),
            "records-per-request-max": self._records.maximum(now),
            "records-consumed-rate": self._records.rate(now),
            "records-consumed-total": self._records.total,
            "acknowledgements-send-rate": self._sent.rate(now),
            "acknowledgements-send-total": self._sent.total,
            "acknowledgements-error-rate": self._failed.rate(now),
            "acknowledgements-error-total": self._failed.total,
            "corrupt-batches-rate": self._damaged.rate(now),
            "corrupt-batches-total": self._damaged.total,
            "fetch-latency-avg": self._latency.average(now),
            "fetch-latency-max": self._latency.maximum(now),
            "fetch-rate": self._latency.count_rate(now),
            "fetch-total": self._latency.count,
            "fetch-throttle-time-avg": self._throttle.average(now),
            "fetch-throttle-time-max": self._throttle.maximum(now),
        }


def _ago(then: float | None, now: float) -> float:
    return -1 if then is None else math.floor(now - then)


def _offsets(ranges: Sequence[AcknowledgedRange]) -> int:
    return sum(one.last - one.first + 1 for one in ranges)
