"""Reads all metrics of a broker.

The counters are read in several steps of the event loop, so that many groups do not delay requests.
A thread formats the text.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sharegroup.broker.metrics.authentication import AUTHENTICATION
from sharegroup.broker.metrics.coordination import COORDINATION
from sharegroup.broker.metrics.delivery import DELIVERY, read_partition
from sharegroup.broker.metrics.exposition import Exposition
from sharegroup.broker.metrics.lag import LAG, LagReader
from sharegroup.broker.metrics.metric import Sample
from sharegroup.broker.metrics.node import NODE, LoopLag
from sharegroup.broker.metrics.quotas import QUOTAS
from sharegroup.broker.metrics.table import Scrape
from sharegroup.broker.metrics.traffic import TRAFFIC
from sharegroup.broker.metrics.transactions import TRANSACTIONS
from sharegroup.broker.parts import BrokerParts

TABLES: Final = (
    TRAFFIC,
    QUOTAS,
    DELIVERY,
    COORDINATION,
    TRANSACTIONS,
    AUTHENTICATION,
    NODE,
    LAG,
)
"""All tables, in the order in which they are read."""
METRICS: Final = tuple(metric for table in TABLES for metric in table.metrics)

GROUPS_AT_ONCE: Final = 100
"""Groups or share partitions read in one step, before other requests run."""


class MetricsReader:
    """The metrics of one broker. ``loop_lag`` measures only after its owner has started it."""

    def __init__(
        self,
        parts: BrokerParts,
        loop_lag: LoopLag | None = None,
    ) -> None:
        self._parts = parts
        self._lag = LagReader(parts)
        self._loop_lag = loop_lag or LoopLag()
        self._one_at_a_time = asyncio.Lock()

    async def read(self) -> list[Sample]:
        """Every sample, now."""
        parts = self._parts
        parts.forget_meters()
        scrape = Scrape(parts, self._loop_lag.seconds, parts.counters.statistics())
        samples = [sample for table in TABLES for sample in table.read(scrape)]
        for number, led in enumerate(parts.views.share_groups.led()):
            samples += read_partition(led)
            if number % GROUPS_AT_ONCE == GROUPS_AT_ONCE - 1:
                await asyncio.sleep(0)
        number = 0
        async for of_group in self._lag.read():
            samples += of_group
            number += 1
            if number % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return samples

    async def text(self, accept: str = "") -> tuple[bytes, str]:
        """The text for a scraper, and its content type."""
        async with self._one_at_a_time:
            exposition = Exposition(await self.read(), process=True)
            return await asyncio.to_thread(exposition.text, accept)
