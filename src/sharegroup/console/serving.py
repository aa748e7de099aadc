"""Serves the console: until a signal in a process of its own, or beside a broker until it stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from sharegroup.client.network.cluster import Cluster
from sharegroup.console.site import site
from sharegroup.console.watches import Watches

GOODBYE_S: Final = 5
"""How long open requests may take to end."""


class _Server(uvicorn.Server):
    """Says when it listens, and ends event streams before it waits for open requests.

    Args:
        signals: it ends at SIGINT and SIGTERM; otherwise somebody else sees to them.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        watches: Watches,
        ready: Callable[[], None],
        *,
        signals: bool,
    ) -> None:
        super().__init__(config)
        self._watches = watches
        self._ready = ready
        self._signals = signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._watches.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if self._signals:
            with super().capture_signals():
                yield
        else:
            yield


def _server(
    cluster: Cluster,
    servers: str,
    hosts: Collection[str],
    ready: Callable[[], None],
    *,
    signals: bool,
) -> _Server:
    watches = Watches()
    config = uvicorn.Config(
        site(cluster, servers, watches, hosts),
        log_config=None,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GOODBYE_S,
    )
    return _Server(config, watches, ready, signals=signals)


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
    server = _server(cluster, servers, hosts, ready, signals=True)
    await server.serve([listening])


class ConsoleBeside:
    """A console in the process of a broker."""

    def __init__(self, server: _Server, serving: asyncio.Task[None], cluster: Cluster) -> None:
        self._server = server
        self._serving = serving
        self._cluster = cluster

    @classmethod
    async def open(
        cls, cluster: Cluster, servers: str, listening: socket.socket, hosts: Collection[str]
    ) -> ConsoleBeside:
        """Serve until :meth:`close`; the arguments are those of :func:`serve`."""
        ready = asyncio.Event()
        server = _server(cluster, servers, hosts, ready.set, signals=False)
        serving = asyncio.create_task(server.serve([listening]), name="console")
        await ready.wait()
        return cls(server, serving, cluster)

    async def close(self) -> None:
        """End all requests and connections."""
        self._server.should_exit = True
        await self._serving
        await self._cluster.close()
