"""A consumer's metrics, with the names of Kafka's consumer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

from sharegroup.client.metrics import ReadingMetrics
from sharegroup.client.sensors import Sensor
from sharegroup.model.ids import TopicPartition

POLL_GROUP: Final = "consumer-metrics"
COORDINATOR_GROUP: Final = "consumer-coordinator-metrics"
FETCH_GROUP: Final = "consumer-fetch-manager-metrics"


class GroupConsumerMetrics(ReadingMetrics):
    """See the module, and :class:`ReadingMetrics`.

    Args:
        lags: partition → how many offsets its position is from its end; None: not known.
    """

    def __init__(
        self, now: Callable[[], float], lags: Callable[[], Mapping[TopicPartition, int | None]]
    ) -> None:
        super().__init__(now)
        self._lags = lags
        self._commits = Sensor()
        self._failed_commits = Sensor()

    def time(self) -> float:
        """Now."""
        return self._now()

    def fetched(self, size: int) -> None:
        """A fetch returned ``size`` bytes of records."""
        self._sizes.record(size, self._now())

    def gave(self, records: int) -> None:
        """The application has got this many records."""
        self._records.record(records, self._now())

    def committed(self, began: float) -> None:
        """A commit that began at this time has succeeded."""
        now = self._now()
        self._commits.record((now - began) * 1000, now)

    def commit_failed(self) -> None:
        """A commit was refused, or not answered in time."""
        self._failed_commits.record(1, self._now())

    def _groups(self, now: float) -> dict[str, dict[str, float]]:
        lags = self._lags()
        known = [lag for lag in lags.values() if lag is not None]
        return {
            POLL_GROUP: self._poll(now),
            COORDINATOR_GROUP: self._coordinator(now) | self._committing(now, lags),
            FETCH_GROUP: self._fetching(now)
            | {"records-lag": sum(known), "records-lag-max": max(known, default=math.nan)},
        }

    def _committing(self, now: float, partitions: Collection[TopicPartition]) -> dict[str, float]:
        return {
            "assigned-partitions": len(partitions),
            "commit-latency-avg": self._commits.average(now),
            "commit-latency-max": self._commits.maximum(now),
            "commit-rate": self._commits.count_rate(now),
            "commit-total": self._commits.count,
            "commit-error-total": self._failed_commits.count,
        }
