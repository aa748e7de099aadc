"""Sees that another node has died sooner than its session ends: its process is gone when a
connection to it ends, and it refuses the next one.

Each node has a port for that alone, where nothing is said: on its listeners a client must log in.
Where other nodes cannot reach that port, a death is noticed at the end of the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from sharegroup.model.errors import ConfigError
from sharegroup.upstream.nodes_group import FleetMap, NodeFacts

logger = logging.getLogger("sharegroup.broker")

PAUSE_S: Final = 0.5
"""Between attempts to connect to a node."""
LOOK_S: Final = 2.0
"""A connection that has not begun by then is taken for refused."""
WATCHERS_MAX: Final = 100
"""How many connections a node holds at its port."""


class WatchedPort:
    """The port of this node, where others see that it is there."""

    def __init__(self) -> None:
        self._server: asyncio.AbstractServer | None = None
        self._watchers: dict[asyncio.Transport, None] = {}

    async def open(self, host: str, port: int) -> int:
        """Accept connections at an address; returns the port, which is a free one for 0.

        Raises:
            ConfigError: the address or the port cannot be used.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Watched(self._watchers), host or None, port
            )
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}, where other brokers see that this one is there: "
                f"{error.strerror}; set upstream.watched.port to a port that is free, or to 0 for "
                "any"
            ) from error
        return cast("int", self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Close the connections."""
        if self._server is not None:
            self._server.close()
            for one in [*self._watchers]:
                one.abort()


class _Watched(asyncio.Protocol):
    def __init__(self, all_of_them: dict[asyncio.Transport, None]) -> None:
        self._all = all_of_them
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if len(self._all) < WATCHERS_MAX:
            self._all[self._transport] = None
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Nobody says anything here."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._all.pop(self._transport, None)


async def is_there(node: NodeFacts) -> bool:
    """Whether the process of a node accepts a connection."""
    host, _ = next(iter(node.endpoints.values()))
    try:
        async with asyncio.timeout(LOOK_S):
            _, writer = await asyncio.open_connection(host, node.watched_port)
    except OSError:  # a timeout is one
        return False
    writer.close()
    return True


class PeerWatch:
    """See the module.

    Args:
        gone: called with a node whose process is gone, again and again until a map is without it.
    """

    def __init__(self, node_id: int, gone: Callable[[NodeFacts], Awaitable[None]]) -> None:
        self._node_id = node_id
        self._gone = gone
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By the incarnation of the node."""

    def told(self, found: FleetMap) -> None:
        """There is a new map: watch its nodes."""
        others = [one for one in found.nodes.values() if one.node_id != self._node_id]
        wanted = {one.incarnation: one for one in others}
        for key in [key for key in self._tasks if key not in wanted]:
            self._tasks.pop(key).cancel()
        for key, node in wanted.items():
            if key not in self._tasks:
                task = asyncio.create_task(self._watch(node), name=f"watch node {key}")
                self._tasks[key] = task

    async def close(self) -> None:
        """Watch nobody."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, node: NodeFacts) -> None:
        seen = False
        host, _ = next(iter(node.endpoints.values()))
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, node.watched_port)
            except ConnectionRefusedError:
                if seen:  # the cluster may forget what it was told: tell it until a map says so
                    await self._gone(node)
                await asyncio.sleep(PAUSE_S)
                continue
            except OSError:
                await asyncio.sleep(PAUSE_S)
                continue
            seen = True
            began_s = asyncio.get_running_loop().time()
            try:
                await reader.read(1)  # it says nothing: this is the end
            except OSError as error:
                logger.debug("the connection to node %d has ended: %s", node.node_id, error)
            finally:
                writer.close()
            if asyncio.get_running_loop().time() - began_s < PAUSE_S:
                await asyncio.sleep(PAUSE_S)  # a proxy may take any connection, and end it at once
