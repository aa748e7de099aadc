"""What one viewer works with: connections to the broker, and what is remembered between looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.core.query_report import QUERY_TOPIC
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.queue_views import QueueViews
from sharegroup.console.spark_views import SparkViews
from sharegroup.console.watches import Seats, Watches


class Watched(NamedTuple):
    """The broker that the page is about.

    Attributes:
        asking: connections for questions.
        reading: connections for fetches, which would keep other requests waiting.
        servers: the addresses, as the page shows them.
        query_topic: where Spark's listeners write.
    """

    asking: Cluster
    reading: Cluster
    servers: str
    query_topic: str = QUERY_TOPIC

    async def close(self) -> None:
        """Close all connections."""
        await self.asking.close()
        await self.reading.close()


class Desk:
    """See the module.

    Args:
        seats: how many event streams may be open, of all desks together.
    """

    def __init__(self, broker: Watched, seats: Seats) -> None:
        self.broker = broker
        self.admin = Admin(
            cluster=broker.asking, request_timeout_ms=broker.asking.request_timeout_ms
        )
        self.queues = QueueViews(self.admin, broker.reading)
        self.spark = SparkViews(self.admin, broker.reading, broker.query_topic)
        self.watches = Watches(seats)
        self._progress: dict[str, str] = {}

    @contextmanager
    def telling(self, name: str) -> Iterator[Callable[[str], None]]:
        """While a long act about ``name`` goes on: what to call with a sentence that says how far
        it is."""
        try:
            yield lambda said: self._progress.__setitem__(name, said)
        finally:
            self._progress.pop(name, None)

    def progress(self, name: str) -> str | None:
        """How far the act about ``name`` is; None: there is none."""
        return self._progress.get(name)

    async def end_streams(self) -> None:
        """End all event streams, now and later ones."""
        await self.watches.close()

    async def close(self) -> None:
        """End all event streams and close all connections."""
        await self.end_streams()
        await self.broker.close()
