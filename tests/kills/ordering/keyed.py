"""What the parts of a round share: names, settings, keys by Zipf's law."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import Final

TOPIC: Final = "orders"
GROUP: Final = "ordered"
PARTITIONS: Final = 4
KEYS: Final = 1_000
LOCK_MS: Final = 1_500
BROKER_OPTIONS: Final = (
    "group.share.min.session.timeout.ms=1000",
    "group.share.session.timeout.ms=4000",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.heartbeat.interval.ms=500",
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.max.delivery.count.limit=25",
    "share.coordinator.state.topic.prune.interval.ms=3600000",
)
GROUP_SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.ordering": "key",
    "share.ordering.key.max.in.flight": "5",
    "share.record.lock.duration.ms": str(LOCK_MS),
    "share.delivery.count.limit": "25",
    "share.assignment.interval.ms": "0",
}
"""The delivery limit is so high that no record comes near it: none may be archived."""


def zipf_keys(random: Random) -> Iterator[bytes]:
    """Keys without end: the n-th of 1,000 is n times as rare as the first (s = 1.0)."""
    names = [b"key-%d" % number for number in range(KEYS)]
    weights = [*accumulate(1 / (number + 1) for number in range(KEYS))]
    while True:
        yield from random.choices(names, cum_weights=weights, k=100)
