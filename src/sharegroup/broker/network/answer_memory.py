"""How many bytes of answers may wait for their readers, over all connections
(``queued.max.response.bytes``).

A peer that reads its answers costs nothing here. Of the room for those that do not, a quarter is
for everybody. When that is used up a fetch gets as many bytes as its connection has read before,
and a batch or so when it has read none: who fetches and never reads costs little, and who reads is
back at full answers after a few fetches. When all the room is used up the slowest readers are
closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from logging import WARNING
from typing import Protocol

from sharegroup.broker.metrics.counters import Counters
from sharegroup.model.limits import ANSWER_BYTES_MIN


class Reader(Protocol):
    """A connection, as this module sees it."""

    host: str
    blocked_s: float
    """The loop time since which its peer does not read as fast as we write."""
    blocked_read_bytes: int
    """What its peer had read then."""

    @property
    def unread_bytes(self) -> int:
        """Answers that are ready and that its peer has not taken."""
        ...

    @property
    def read_bytes(self) -> int:
        """Answers that its peer has taken, since the connection was made."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class AnswerMemory:
    """The room for answers of one broker.

    Args:
        bound: how many bytes there may be; 0 or less: as many as there are.
    """

    def __init__(self, bound: Callable[[], int], counters: Counters) -> None:
        self._bound = bound
        self._counters = counters
        self._behind: dict[Reader, None] = {}

    @property
    def used(self) -> int:
        """Bytes of answers that are not read yet."""
        return sum(reader.unread_bytes for reader in self._behind)

    def falls_behind(self, reader: Reader) -> None:
        """A connection has answers that its peer does not take at once."""
        self._behind[reader] = None

    def caught_up(self, reader: Reader) -> None:
        """Its peer has taken them, or is gone."""
        self._behind.pop(reader, None)

    def allowance(self, reader: Reader) -> int:
        """How many bytes of records an answer to this connection may have."""
        bound = self._bound()
        if bound <= 0:
            return 2**31 - 1
        used = self.used
        return max(ANSWER_BYTES_MIN, bound // 4 - used, min(reader.read_bytes, bound - used))

    def check(self) -> None:
        """Close the slowest readers while the answers they leave take more than there may be."""
        bound = self._bound()
        while 0 < bound < self.used:
            now_s = asyncio.get_running_loop().time()
            slowest = min(self._behind, key=lambda one: _pace(one, now_s))
            detail = (
                f"dropping {slowest.host}: it left {slowest.unread_bytes} bytes of answers unread"
            )
            self._counters.say(WARNING, "connections_dropped", detail, "response memory")
            self.caught_up(slowest)
            slowest.abort()


def _pace(reader: Reader, now_s: float) -> tuple[float, int]:
    """Bytes a second that it reads; of those who read nothing, who leaves most comes first."""
    read = reader.read_bytes - reader.blocked_read_bytes
    return read / max(now_s - reader.blocked_s, 0.001), -reader.unread_bytes
