"""Connections in memory: what one side writes, the other side receives a little later."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextvars import Context, copy_context
from sys import maxsize
from typing import Any, Final

from sharegroup.sim.nodes import NODE

LATENCY_S: Final = 0.0001
"""One-way latency, about the latency of a loopback interface."""

FIRST_FREE_PORT = 49_152


class SimulatedTransport(asyncio.Transport):
    """One side of a connection."""

    def __init__(
        self,
        network: SimulatedNetwork,
        protocol: asyncio.Protocol,
        peer: tuple[str, int],
        context: Context,
    ) -> None:
        super().__init__({"peername": peer})
        self._network = network
        self._loop = network.loop
        self._context = context
        self._protocol = protocol
        self._closing = False
        self._reading = True
        self._travelling: deque[bytes | None] = deque()
        self._inbox: deque[bytes | None] = deque()
        self.other: SimulatedTransport | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send to the other side."""
        if not self._closing and self.other is not None:
            self._network.count(self.node)
            self.other.send(bytes(data))

    def writelines(self, chunks: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send all chunks as one."""
        self.write(b"".join(chunks))

    @property
    def node(self) -> str:
        """Whose side it is."""
        return self._context.get(NODE, "")

    def reset(self) -> None:
        """The connection breaks, and this side hears of it; what travels to it is lost."""
        if self._closing:
            return
        self._closing = True
        error = ConnectionResetError(104, "Connection reset by peer")
        self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    def is_closing(self) -> bool:
        """Whether this side was closed."""
        return self._closing

    def can_write_eof(self) -> bool:
        """A connection is closed in both directions only."""
        return False

    def close(self) -> None:
        """Close the connection after the written data; both protocols are notified."""
        if self._closing:
            return
        self._closing = True
        self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)
        if self.other is not None:
            self.other.send(None)

    def abort(self) -> None:
        """End the connection."""
        self.close()

    def pause_reading(self) -> None:
        """Hold back what arrives."""
        self._reading = False

    def resume_reading(self) -> None:
        """Deliver the data that was held back, and resume."""
        self._reading = True
        self._loop.call_soon(self._hand_out, context=self._context)

    def is_reading(self) -> bool:
        """Whether data is handed to the protocol."""
        return self._reading

    def get_write_buffer_size(self) -> int:
        """Nothing waits: the other side takes everything."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no write buffer."""

    def send(self, data: bytes | None) -> None:
        """Schedule the delivery of data from the other side; None is the end of the stream. A queue
        keeps the order, because timers of the same moment fire in any order.
        """
        self._travelling.append(data)
        seconds = self._network.travel_s(self)
        self._loop.call_later(seconds, self._arrive, context=self._context)

    def _arrive(self) -> None:
        # One message of the queue for each timer: a quick one does not overtake.
        self._inbox.append(self._travelling.popleft())
        self._hand_out()

    def _hand_out(self) -> None:
        while self._inbox and self._reading and not self._closing:
            data = self._inbox.popleft()
            if data is None:
                self.close()
            else:
                self._protocol.data_received(data)


class _Address:
    """Stands in for a server's socket: its address."""

    def __init__(self, host: str, port: int) -> None:
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        """(host, port)."""
        return self._name


class SimulatedServer(asyncio.AbstractServer):
    """A listener."""

    def __init__(self, network: SimulatedNetwork, host: str, port: int) -> None:
        self._network = network
        self._port = port
        self.sockets = (_Address(host, port),)

    def close(self) -> None:
        """Refuse connections from now on."""
        self._network.forget(self._port)

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._network.listens(self._port)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The simulated loop."""
        return self._network.loop

    async def start_serving(self) -> None:
        """Do nothing: it serves from the start."""

    async def serve_forever(self) -> None:
        """Wait for cancellation."""
        await self._network.loop.create_future()

    async def wait_closed(self) -> None:
        """Return at once: closing takes no time."""


class SimulatedNetwork:
    """All listeners and connections of one simulated loop; one host, many ports."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._listeners: dict[int, tuple[Callable[[], asyncio.Protocol], Context]] = {}
        self._transports: list[SimulatedTransport] = []
        self._silent_until_s: dict[str, float] = {}
        self._held_until_s: dict[tuple[str, str], float] = {}
        self.latency_s: Callable[[], float] = lambda: LATENCY_S
        """Draws how long a message takes."""
        self._next_port = FIRST_FREE_PORT
        self._sent: dict[str, tuple[int, int]] = {}
        self.messages_max = maxsize
        """Of one node in one second."""
        self.spins: Callable[[str], None] = lambda _node: None
        """Called with a node that sends more."""

    def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> SimulatedServer:
        """Accept connections on ``port``; 0 chooses a free one."""
        if port == 0:
            self._next_port += 1
            port = self._next_port
        if port in self._listeners:
            raise OSError(98, "Address already in use")
        self._listeners[port] = factory, copy_context()
        return SimulatedServer(self, host, port)

    def listens(self, port: int) -> bool:
        """Whether a server listens on ``port``."""
        return port in self._listeners

    def forget(self, port: int) -> None:
        """Stop listening on ``port``."""
        self._listeners.pop(port, None)

    def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[SimulatedTransport, Any]:
        """Connect to the server that listens on ``port``.

        Raises:
            ConnectionRefusedError: no server listens there.
        """
        if port not in self._listeners:
            raise ConnectionRefusedError(111, f"no server listens on {host}:{port}")
        accept, theirs = self._listeners[port]
        ours = copy_context()
        self._next_port += 1
        client, server = factory(), theirs.copy().run(accept)
        client_side = SimulatedTransport(self, client, (host, port), ours)
        # A copy: a context cannot be entered twice, and this code may run in the server's.
        server_side = SimulatedTransport(self, server, (host, self._next_port), theirs.copy())
        client_side.other, server_side.other = server_side, client_side
        self._transports = [one for one in self._transports if not one.is_closing()]
        self._transports += [client_side, server_side]
        # By the loop, so that nothing of a paused server runs.
        self.loop.call_soon(server.connection_made, server_side, context=theirs.copy())
        client.connection_made(client_side)
        return client_side, client

    def lose(self, node: str) -> None:
        """The node is dead: its ports are free, and the others see their connections end."""
        for port, (_, context) in [*self._listeners.items()]:
            if context.get(NODE) == node:
                del self._listeners[port]
        for side in self._transports:
            if side.node == node and not side.is_closing() and side.other is not None:
                side.other.send(None)

    def cut(self, node: str, peers: Collection[str] = ()) -> None:
        """Reset the connections of a node, for both sides: all, or those to some peers."""
        for side in self._transports:
            if side.node != node or side.other is None:
                continue
            if not peers or side.other.node in peers:
                side.reset()
                side.other.reset()

    def silence(self, node: str, seconds: float) -> None:
        """Nothing gets to the node, and nothing from it, for so long: it arrives afterwards, as TCP
        sends it again."""
        self._silent_until_s[node] = self.loop.time() + seconds

    def hold_back(self, sender: str, receiver: str, seconds: float) -> None:
        """Nothing gets from one node to another one for so long, as :meth:`silence` says. A
        connection between them takes as long to begin."""
        self._held_until_s[sender, receiver] = self.loop.time() + seconds

    def opens_in_s(self, port: int) -> float:
        """How long it takes until a connection of this node to a server begins."""
        if not self._held_until_s or port not in self._listeners:
            return 0.0
        here, there = NODE.get(), self._listeners[port][1].get(NODE, "")
        return max(self._held_s(here, there), self._held_s(there, here), 0.0)

    def _held_s(self, sender: str, receiver: str) -> float:
        return self._held_until_s.get((sender, receiver), 0.0) - self.loop.time()

    def count(self, node: str) -> None:
        """The node sends a message."""
        second, many = self._sent.get(node, (-1, 0))
        now = int(self.loop.time())
        many = many + 1 if second == now else 1
        self._sent[node] = now, many
        if many == self.messages_max + 1:
            self.spins(node)

    def travel_s(self, to: SimulatedTransport) -> float:
        """How long a message takes to this side of a connection."""
        seconds = self.latency_s()
        if self._silent_until_s:
            now_s = self.loop.time()
            ends = [to.node] if to.other is None else [to.node, to.other.node]
            until_s = max(self._silent_until_s.get(node, 0.0) for node in ends)
            seconds = max(seconds, until_s - now_s)
        if self._held_until_s and to.other is not None:
            seconds = max(seconds, self._held_s(to.other.node, to.node))
        return seconds
