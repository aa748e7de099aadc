"""Connections that have not authenticated yet: a quarter of all at most, and each for a short time.

A TLS handshake in progress counts, too. So whoever has no credentials can take neither all
descriptors nor much memory. When the room is full, the address with the most connections in it
loses its oldest connection to the newcomer: a client that authenticates at once gets in, however
many others hold connections open and send nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sharegroup.broker.event_counters import Counters
from sharegroup.model.limits import (
    UNAUTHENTICATED_HOSTS_COMPARED,
    UNAUTHENTICATED_MIN,
    UNAUTHENTICATED_SHARE,
)


class Waiting(Protocol):
    """A connection, as this module sees it."""

    def abort(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a connection in the room. ``timer`` ends the connection's time; None: somebody
    else watches it."""

    host: str
    timer: asyncio.TimerHandle | None


class WaitingRoom:
    """See the module.

    Args:
        connections_max: the most connections there may be in all.
        timeout_ms: how long a connection may stay in the room.
        large_max: how many connections here may hold more than ``MODEST_BYTES``.
    """

    def __init__(
        self,
        connections_max: Callable[[], int],
        timeout_ms: Callable[[], int],
        large_max: Callable[[], int],
        counters: Counters,
    ) -> None:
        self._connections_max = connections_max
        self._timeout_ms = timeout_ms
        self._large_max = large_max
        self._counters = counters
        self._places: dict[Waiting, _Place] = {}  # this and the two below have the oldest first
        self._by_host: dict[str, dict[Waiting, None]] = {}
        self._large: dict[Waiting, None] = {}
        self.handshakes = 0
        """TLS handshakes in progress."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def timeout_s(self) -> float:
        """How long a handshake, or an authentication, may take."""
        return self._timeout_ms() / 1000

    def begin_handshake(self, handshake: Waiting, host: str) -> None:
        """Take in a TLS handshake; the caller watches its time."""
        self._make_room()
        self._put(handshake, _Place(host, None))
        self.handshakes += 1

    def end_handshake(self, handshake: Waiting) -> None:
        """Let out a TLS handshake, which has succeeded or failed."""
        self.handshakes -= 1
        self.leave(handshake)

    def enter(self, connection: Waiting, host: str) -> None:
        """Take in a connection, and close it if it does not authenticate in time."""
        self._make_room()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.timeout_s, self._late, connection, host)
        self._put(connection, _Place(host, timer))

    def grown(self, connection: Waiting) -> None:
        """Note that a connection holds more than ``MODEST_BYTES``; ignored if it is not here."""
        if connection in self._places:
            self._large[connection] = None
            if len(self._large) > self._large_max():
                self._put_out(next(iter(self._large)), "unauthenticated requests")

    def leave(self, connection: Waiting) -> None:
        """Let out a connection that has authenticated, or is gone; ignored if it is not here."""
        place = self._places.pop(connection, None)
        if place is None:
            return
        self._large.pop(connection, None)
        if place.timer is not None:
            place.timer.cancel()
        neighbours = self._by_host[place.host]
        del neighbours[connection]
        if not neighbours:
            del self._by_host[place.host]

    def close(self) -> None:
        """Close all connections that are here."""
        for waiting in list(self._places):
            waiting.abort()

    def _put(self, waiting: Waiting, place: _Place) -> None:
        self._places[waiting] = place
        self._by_host.setdefault(place.host, {})[waiting] = None

    def _make_room(self) -> None:
        most = max(UNAUTHENTICATED_MIN, self._connections_max() // UNAUTHENTICATED_SHARE)
        if len(self) < most:
            return
        crowd: dict[Waiting, None] | dict[Waiting, _Place] = self._places
        if len(self._by_host) <= UNAUTHENTICATED_HOSTS_COMPARED:
            crowd = max(self._by_host.values(), key=len)
        self._put_out(next(iter(crowd)), "unauthenticated")

    def _put_out(self, waiting: Waiting, limit: str) -> None:
        self._counters.trouble("connections_refused", limit, f"from {self._places[waiting].host}")
        self.leave(waiting)
        waiting.abort()

    def _late(self, connection: Waiting, host: str) -> None:
        sentence = f"closing the connection from {host}: it did not authenticate in time"
        self._counters.say(logging.WARNING, "authentications_late", sentence)
        connection.abort()
