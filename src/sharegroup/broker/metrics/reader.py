"""Reads all metrics of a broker.

The counters are read in several steps of the event loop, so that many groups do not delay requests.
A thread formats the text.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sharegroup.broker.metrics import (
    authentication,
    coordination,
    delivery,
    node,
    quotas,
    traffic,
    transactions,
)
from sharegroup.broker.metrics.exposition import Exposition
from sharegroup.broker.metrics.lag import LagReader
from sharegroup.broker.metrics.metric import Sample
from sharegroup.broker.metrics.node import LoopLag
from sharegroup.broker.parts import BrokerParts

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
        samples = [
            *traffic.read(parts),
            *quotas.read(parts),
            *delivery.read(parts),
            *coordination.read(parts),
            *transactions.read(parts),
            *authentication.read(parts),
            *node.read(parts, self._loop_lag),
        ]
        for number, led in enumerate(parts.views.share_groups.led()):
            samples += delivery.read_partition(led)
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
