"""Connections that have not authenticated yet: a quarter of all at most, and each for a short time.

A TLS handshake in progress counts, too. So whoever has no credentials can take neither all
descriptors nor much memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from sharegroup.broker.counters import Counters
from sharegroup.model.limits import UNAUTHENTICATED_MIN, UNAUTHENTICATED_SHARE


class Waiting(Protocol):
    """A connection, as this module sees it."""

    def abort(self) -> None:
        """Close at once."""
        ...


class WaitingRoom:
    """See the module.

    Args:
        connections_max: the most connections there may be in all.
        timeout_ms: how long one may stay here.
    """

    def __init__(
        self,
        connections_max: Callable[[], int],
        timeout_ms: Callable[[], int],
        counters: Counters,
    ) -> None:
        self._connections_max = connections_max
        self._timeout_ms = timeout_ms
        self._counters = counters
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self.handshakes = 0
        """TLS handshakes in progress."""

    def __len__(self) -> int:
        return len(self._timers) + self.handshakes

    @property
    def timeout_s(self) -> float:
        """How long a handshake, or an authentication, may take."""
        return self._timeout_ms() / 1000

    def begin_handshake(self, host: str) -> bool:
        """Count one more handshake; False if there are too many: the caller must close it."""
        if not self._has_room(host):
            return False
        self.handshakes += 1
        return True

    def end_handshake(self) -> None:
        """It has ended, well or not."""
        self.handshakes -= 1

    def enter(self, connection: Waiting, host: str) -> bool:
        """Let a connection wait; False if too many do: the caller must close it."""
        if not self._has_room(host):
            return False
        loop = asyncio.get_running_loop()
        self._timers[connection] = loop.call_later(self.timeout_s, self._late, connection, host)
        return True

    def leave(self, connection: object) -> None:
        """It has authenticated, or is gone."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _has_room(self, host: str) -> bool:
        most = max(UNAUTHENTICATED_MIN, self._connections_max() // UNAUTHENTICATED_SHARE)
        if len(self) < most:
            return True
        self._counters.trouble("connections_refused", "unauthenticated", f"from {host}")
        return False

    def _late(self, connection: Waiting, host: str) -> None:
        sentence = f"closing the connection from {host}: it did not authenticate in time"
        self._counters.say(logging.WARNING, "authentications_late", sentence)
        connection.abort()
