"""The open connections of one broker: limits on their number and on their idle time.

A connection over ``max.connections`` or ``max.connections.per.ip`` is accepted and closed at once.
(Kafka does this for the limit by address only; at ``max.connections`` it stops accepting until a
connection closes. A client whose connection is closed knows at once; a client that is not accepted
waits for its time-out.)
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.network.answer_memory import AnswerMemory
from sharegroup.broker.network.request_memory import MemoryHolder, RequestMemory
from sharegroup.broker.network.request_scheduler import RequestScheduler
from sharegroup.broker.network.tls.handshake_turns import HandshakeTurns
from sharegroup.broker.network.waiting_room import Waiting, WaitingRoom
from sharegroup.broker.read_model.connections import ConnectionView
from sharegroup.model.config import INT_MAX
from sharegroup.model.limits import UNAUTHENTICATED_MEMORY_SHARE, UNAUTHENTICATED_MIN

LOOKS_PER_IDLE_TIME: Final = 8
"""Checks for idle connections per idle time: a connection is closed at most an eighth late."""


class Admitted(MemoryHolder, Protocol):
    """A connection, as this module sees it."""

    @property
    def authenticated(self) -> bool:
        """Whether the client is known, or the listener asks for no login."""
        ...

    def idle_since(self, before: float) -> bool:
        """Whether it is idle since the loop time ``before``."""
        ...

    def stop(self) -> None:
        """Start no further request."""
        ...

    async def idle(self, until_s: float) -> None:
        """Return when no request runs, or at the loop time ``until_s``."""
        ...

    def end(self) -> None:
        """Send what is ready and the end."""
        ...

    def close(self) -> None:
        """Send what is ready, then close."""
        ...

    def view(self) -> ConnectionView:
        """What it looks like now."""
        ...


C = TypeVar("C", bound=Admitted)


class Setting:
    """One number of the broker's settings, parsed again only after the settings have changed."""

    def __init__(self, config: Callable[[], BrokerConfig], name: str) -> None:
        self._config = config
        self._name = name
        self._seen: BrokerConfig | None = None
        self._value = 0

    def __call__(self) -> int:
        config = self._config()
        if config is not self._seen:
            self._seen, self._value = config, config.integer(self._name)
        return self._value


class Connections(Generic[C]):
    """All connections that are open.

    Args:
        config: the settings in force.
        lost: called with each connection that is gone.
        room: how many connections there are file descriptors for.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        counters: Counters,
        lost: Callable[[C], None],
        room: Callable[[], int],
    ) -> None:
        self._config = config
        self._counters = counters
        self._lost = lost
        self._room = room
        self._open: dict[C, None] = {}  # closed in this order, which is no set's
        self._by_host: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self.waiting_room = WaitingRoom(
            lambda: min(config().integer("max.connections"), room()),
            Setting(config, "connections.authentication.timeout.ms"),
            self._large_max,
            counters,
        )
        """The connections that have not authenticated yet."""
        self.handshake_turns = HandshakeTurns()
        """Which TLS handshake begins next."""
        self.first_bytes_max = Setting(config, "sasl.server.max.receive.size")
        """Bytes of the longest request of a client that has not authenticated."""
        self.turns = RequestScheduler()
        """Which connection starts its requests next."""
        longest = Setting(config, "socket.request.max.bytes")
        queued = Setting(config, "queued.max.request.bytes")
        self.requests = RequestMemory(
            lambda: max(queued(), longest()) if queued() > 0 else 0,
            longest,
            lambda: list(self._open),
            self.waiting_room.grown,
            counters,
        )
        """Bounds the memory of requests."""
        self.answers = AnswerMemory(Setting(config, "queued.max.response.bytes"), counters)
        """Bounds the memory of answers that peers have not read."""

    def __contains__(self, connection: object) -> bool:
        return connection in self._open

    def __len__(self) -> int:
        return len(self._open)

    @property
    def request_bytes(self) -> int:
        """Memory that requests use: bytes of unanswered requests, and the room that is reserved for
        unfinished requests."""
        return self.requests.used

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that clients have not read."""
        return self.answers.used

    @property
    def unauthenticated(self) -> int:
        """Connections whose client is not known yet, and TLS handshakes in progress."""
        return len(self.waiting_room)

    def views(self) -> list[ConnectionView]:
        """What the connections look like now."""
        return [connection.view() for connection in self._open]

    def all(self) -> list[C]:
        """The connections that are open now."""
        return list(self._open)

    def admit(self, connection: C) -> bool:
        """Register a new connection; False if there are too many: the caller must close it."""
        host = connection.host
        reason = self._too_many(host)
        if reason:
            self._counters.trouble("connections_refused", reason, f"from {host}")
            return False
        if not connection.authenticated:
            self.waiting_room.enter(connection, host)
        self._open[connection] = None
        self._by_host[host] += 1
        self._counters.add("connections")
        self._watch()
        return True

    def admit_handshake(self, handshake: Waiting, host: str) -> bool:
        """Register a TLS handshake; False if there are too many connections: the caller must
        close it."""
        reason = self._too_many(host)
        if reason:
            self._counters.trouble("connections_refused", reason, f"from {host}")
            return False
        self.waiting_room.begin_handshake(handshake, host)
        self._by_host[host] += 1
        return True

    def end_handshake(self, handshake: Waiting, host: str) -> None:
        """Unregister a TLS handshake, which has succeeded or failed."""
        self.waiting_room.end_handshake(handshake)
        self._forget_one(host)

    def authenticated(self, connection: C) -> None:
        """The client is known now."""
        self.waiting_room.leave(connection)

    def nobody(self, host: str, listener: str) -> None:
        """A client's certificate is valid, and no rule makes it a principal."""
        sentence = f"no rule of ssl.principal.mapping.rules is for the certificate of {host}"
        self._counters.say(logging.WARNING, "authentication_failures", sentence, "SSL")

    def gone(self, connection: C) -> None:
        """Unregister a closed connection; one that was not admitted is ignored."""
        if connection not in self._open:
            return
        self.waiting_room.leave(connection)
        del self._open[connection]
        self._forget_one(connection.host)
        self._lost(connection)

    def stop(self) -> None:
        """Start no more requests."""
        for connection in self.all():
            connection.stop()

    async def idle(self, seconds: float) -> None:
        """Return when no connection has an open request, or after ``seconds``."""
        until_s = asyncio.get_running_loop().time() + seconds
        for connection in self.all():
            await connection.idle(until_s)

    def end(self) -> None:
        """Send what is ready and then the end, on all connections. A connection whose peer closes
        after that is gone."""
        for connection in self.all():
            connection.end()

    def close(self) -> None:
        """Close all connections, and stop the checks for idle ones."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.requests.close()
        self.handshake_turns.close()
        self.waiting_room.close()
        for connection in self.all():
            connection.close()

    def _forget_one(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def _too_many(self, host: str) -> str | None:
        config = self._config()
        count = len(self._open) + self.waiting_room.handshakes
        if count >= min(config.integer("max.connections"), self._room()):
            return "max.connections"
        most = config.connections_per_ip.get(host, config.integer("max.connections.per.ip"))
        return "max.connections.per.ip" if self._by_host[host] >= most else None

    def _large_max(self) -> int:
        """How many unauthenticated clients may send long requests at once."""
        config = self._config()
        queued = config.integer("queued.max.request.bytes")
        if queued <= 0:
            return INT_MAX
        room = max(queued, config.integer("socket.request.max.bytes"))
        share = room // UNAUTHENTICATED_MEMORY_SHARE
        return max(UNAUTHENTICATED_MIN, share // self.first_bytes_max())

    def _watch(self) -> None:
        """Schedule the next check for idle connections, if any connection is open."""
        idle_s = self._config().integer("connections.max.idle.ms") / 1000
        if idle_s > 0 and self._open and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(idle_s / LOOKS_PER_IDLE_TIME, self._close_idle, idle_s)

    def _close_idle(self, idle_s: float) -> None:
        self._timer = None
        before = asyncio.get_running_loop().time() - idle_s
        for connection in self.all():
            if connection.idle_since(before):
                sentence = f"closing the idle connection from {connection.host}"
                self._counters.say(logging.INFO, "connections_idle_closed", sentence)
                connection.abort()
        self._watch()
