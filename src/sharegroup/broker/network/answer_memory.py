"""Bounds the bytes of answers that wait for slow peers, over all connections
(``queued.max.response.bytes``).

A peer that reads its answers costs nothing here. The first quarter of the memory is open to every
connection. When it is used up, a fetch gets as many bytes as its connection has read before, or
about one batch if it has read none. So a peer that fetches and never reads costs little, and a peer
that reads is back at full answers after a few fetches. When all the memory is used up, the
connections of the slowest readers are closed. Of each connection at most half of the memory is
counted, so that one connection alone is never closed for its answers: the answer that gives the
leader of a group the metadata of all members may be larger than the memory, and its bytes are the
group's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from logging import WARNING
from typing import Protocol

from sharegroup.broker.event_counters import Counters
from sharegroup.model.limits import ANSWER_BYTES_MIN


class AnswerReader(Protocol):
    """A connection, as this module sees it."""

    host: str
    blocked_s: float
    """Loop time at which its peer began to read more slowly than we write."""
    blocked_read_bytes: int
    """Bytes that its peer had read at that time."""

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that are ready and that its peer has not read."""
        ...

    @property
    def read_bytes(self) -> int:
        """Bytes of answers that its peer has read, since the connection was made."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class AnswerMemory:
    """The memory for unread answers of one broker.

    Args:
        bound: the most bytes of unread answers; 0 or less means no bound.
    """

    def __init__(self, bound: Callable[[], int], counters: Counters) -> None:
        self._bound = bound
        self._counters = counters
        self._behind: dict[AnswerReader, None] = {}

    @property
    def used(self) -> int:
        """Bytes of answers that are not read yet."""
        return sum(reader.unread_bytes for reader in self._behind)

    def falls_behind(self, reader: AnswerReader) -> None:
        """Count a connection whose peer does not read its answers at once."""
        self._behind[reader] = None

    def caught_up(self, reader: AnswerReader) -> None:
        """Stop counting a connection: its peer has read the answers, or is gone."""
        self._behind.pop(reader, None)

    def allowance(self, reader: AnswerReader) -> int:
        """How many bytes of records an answer to this connection may have."""
        bound = self._bound()
        if bound <= 0:
            return 2**31 - 1
        used = self.used
        return max(ANSWER_BYTES_MIN, bound // 4 - used, min(reader.read_bytes, bound - used))

    def check(self) -> None:
        """Close the slowest readers while unread answers exceed the bound."""
        bound = self._bound()
        each_max = bound // 2
        while 0 < bound < sum(min(one.unread_bytes, each_max) for one in self._behind):
            now_s = asyncio.get_running_loop().time()
            slowest = min(self._behind, key=lambda one: _pace(one, now_s))
            detail = (
                f"dropping {slowest.host}: it left {slowest.unread_bytes} bytes of answers unread"
            )
            self._counters.say(WARNING, "connections_dropped", detail, "response memory")
            self.caught_up(slowest)
            slowest.abort()


def _pace(reader: AnswerReader, now_s: float) -> tuple[float, int]:
    """Sort key, slowest first: bytes read per second; at equal speed, most unread bytes first."""
    read = reader.read_bytes - reader.blocked_read_bytes
    return read / max(now_s - reader.blocked_s, 0.001), -reader.unread_bytes
