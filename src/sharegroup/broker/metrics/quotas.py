"""Throttled requests and connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.metrics.metric import Sample, counter, gauge
from sharegroup.broker.parts import BrokerParts

THROTTLED: Final = counter(
    "sharegroup_throttled",
    "Requests whose connection was muted, and connections that had to wait, by quota.",
    labels=("quota",),
    kafka="kafka.server:type=Produce (Fetch, Request) throttle-time, counted",
)
THROTTLE_SECONDS: Final = counter(
    "sharegroup_throttle_seconds",
    "The throttle time of all of them. Throttles of one connection may overlap.",
    labels=("quota",),
    unit="seconds",
    kafka="kafka.server:type=Produce (Fetch, Request) throttle-time",
)
FOLLOWED: Final = gauge(
    "sharegroup_quota_rates",
    "Clients and addresses whose rate is followed, because a quota applies to them.",
)

METRICS: Final = (THROTTLED, THROTTLE_SECONDS, FOLLOWED)


def read(parts: BrokerParts) -> Iterator[Sample]:
    """The samples of this table."""
    for name, meter in parts.quotas.meters.items():
        yield THROTTLED.of(meter.throttled, name)
        yield THROTTLE_SECONDS.of(meter.throttled_ms / 1000, name)
    yield FOLLOWED.of(parts.quotas.followed)
