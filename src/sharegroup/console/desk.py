"""What one viewer works with: connections to the broker, and what is remembered between looks."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.queue_views import QueueViews
from sharegroup.console.watches import Seats, Watches


class Watched(NamedTuple):
    """The broker that the page is about.

    Attributes:
        asking: connections for questions.
        reading: connections for fetches, which would keep other requests waiting.
        servers: the addresses, as the page shows them.
    """

    asking: Cluster
    reading: Cluster
    servers: str

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
        self.queues = QueueViews(self.admin)
        self.watches = Watches(seats)

    async def end_streams(self) -> None:
        """End all event streams, now and later ones."""
        await self.watches.close()

    async def close(self) -> None:
        """End all event streams and close all connections."""
        await self.end_streams()
        await self.broker.close()
