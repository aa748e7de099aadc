"""Serves the console until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from typing import Final

import uvicorn

from sharegroup.client.network.cluster import Cluster
from sharegroup.console.site import site
from sharegroup.console.watches import Watches

GOODBYE_S: Final = 5
"""How long open requests may take to end."""


class _Server(uvicorn.Server):
    """Says when it listens, and ends event streams before it waits for open requests."""

    def __init__(self, config: uvicorn.Config, watches: Watches, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._watches = watches
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._watches.close()
        await super().shutdown(sockets)


async def serve(
    cluster: Cluster,
    servers: str,
    listening: socket.socket,
    *,
    hosts: Collection[str],
    ready: Callable[[], None],
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        cluster: connections to the broker.
        servers: the broker's addresses, as the page shows them.
        listening: the socket; it is closed at the end.
        hosts: the names by which browsers know this console, besides those of loopback.
        ready: called when requests are answered.
    """
    watches = Watches()
    config = uvicorn.Config(
        site(cluster, servers, watches, hosts),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GOODBYE_S,
    )
    await _Server(config, watches, ready).serve([listening])
