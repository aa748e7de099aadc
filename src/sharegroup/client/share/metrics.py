"""A share consumer's metrics, with the names of Kafka's share consumer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.client.metrics import Metrics as Metrics
from sharegroup.client.metrics import ReadingMetrics
from sharegroup.client.sensors import Sensor

POLL_GROUP: Final = "consumer-share-metrics"
COORDINATOR_GROUP: Final = "consumer-share-coordinator-metrics"
FETCH_GROUP: Final = "consumer-share-fetch-manager-metrics"


class ShareConsumerMetrics(ReadingMetrics):
    """See the module, and :class:`ReadingMetrics`."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self._sent = Sensor()
        self._failed = Sensor()
        self._damaged = Sensor()

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

    def _groups(self, now: float) -> dict[str, dict[str, float]]:
        return {
            POLL_GROUP: self._poll(now),
            COORDINATOR_GROUP: self._coordinator(now),
            FETCH_GROUP: self._fetching(now) | self._delivering(now),
        }

    def _delivering(self, now: float) -> dict[str, float]:
        return {
            "records-per-request-avg": self._records.average(now),
            "records-per-request-max": self._records.maximum(now),
            "acknowledgements-send-rate": self._sent.rate(now),
            "acknowledgements-send-total": self._sent.total,
            "acknowledgements-error-rate": self._failed.rate(now),
            "acknowledgements-error-total": self._failed.total,
            "corrupt-batches-rate": self._damaged.rate(now),
            "corrupt-batches-total": self._damaged.total,
        }


def _offsets(ranges: Sequence[AcknowledgedRange]) -> int:
    return sum(one.last - one.first + 1 for one in ranges)
