"""Serves the console: until a signal in a process of its own, or beside a broker until it stops."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import uvicorn

from sharegroup.console.payloads import Decode
from sharegroup.console.sessions import Entrance
from sharegroup.console.site import site

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
        entrance: Entrance,
        ready: Callable[[], None],
        *,
        signals: bool,
    ) -> None:
        super().__init__(config)
        self._entrance = entrance
        self._ready = ready
        self._signals = signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._entrance.end_streams()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if self._signals:
            with super().capture_signals():
                yield
        else:
            yield


class Serving(NamedTuple):
    """What is served, and where.

    Attributes:
        entrance: how viewers come in.
        listening: the socket; it is closed at the end.
        hosts: the names by which browsers know this console, besides those of loopback.
        acts: whether the page may change something.
        tls: None: plain HTTP.
        decode: what makes text of values.
    """

    entrance: Entrance
    listening: socket.socket
    hosts: Collection[str]
    acts: bool
    tls: ssl.SSLContext | None = None
    decode: Decode | None = None

    def server(self, ready: Callable[[], None], *, signals: bool) -> _Server:
        """The server; ``ready`` is called when it answers requests."""
        tls = self.tls
        config = uvicorn.Config(
            site(self.entrance, self.hosts, acts=self.acts, decode=self.decode),
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            proxy_headers=False,
            log_config=None,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=GOODBYE_S,
        )
        return _Server(config, self.entrance, ready, signals=signals)


async def serve(serving: Serving, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM. ``ready`` is called when requests are answered."""
    await serving.server(ready, signals=True).serve([serving.listening])


class ConsoleBeside:
    """A console in the process of a broker."""

    def __init__(self, server: _Server, task: asyncio.Task[None], entrance: Entrance) -> None:
        self._server = server
        self._task = task
        self._entrance = entrance

    @classmethod
    async def open(cls, serving: Serving) -> ConsoleBeside:
        """Serve until :meth:`close`."""
        ready = asyncio.Event()
        server = serving.server(ready.set, signals=False)
        task = asyncio.create_task(server.serve([serving.listening]), name="console")
        await ready.wait()
        return cls(server, task, serving.entrance)

    async def close(self) -> None:
        """End all requests and connections."""
        self._server.should_exit = True
        await self._task
        await self._entrance.close()
