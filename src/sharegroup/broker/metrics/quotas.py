"""Throttled requests and connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.metrics.table import Labels, Scrape, Table
from sharegroup.broker.quotas import ThrottleMeter


def _quotas(scrape: Scrape) -> Iterator[tuple[ThrottleMeter, Labels]]:
    for name, meter in scrape.parts.quotas.meters.items():
        yield meter, (name,)


QUOTAS: Final = Table()
BY_QUOTA: Final = QUOTAS.source(("quota",), _quotas)

BY_QUOTA.counter(
    "sharegroup_throttled",
    "Requests whose connection was muted, and connections that had to wait, by quota.",
    lambda meter: meter.throttled,
    kafka="kafka.server:type=Produce (Fetch, Request) throttle-time, counted",
)
BY_QUOTA.counter(
    "sharegroup_throttle_seconds",
    "The throttle time of all of them. Throttles of one connection may overlap.",
    lambda meter: meter.throttled_ms / 1000,
    unit="seconds",
    kafka="kafka.server:type=Produce (Fetch, Request) throttle-time",
)
QUOTAS.whole().gauge(
    "sharegroup_quota_rates",
    "Clients and addresses whose rate is followed, because a quota applies to them.",
    lambda scrape: scrape.parts.quotas.followed,
)
