"""Bounds the bytes of requests in memory, over all connections (``queued.max.request.bytes``).

Two things count: received bytes of requests that are not answered, and the bytes that an unfinished
request of more than a few kilobytes still needs. Such a request is read on only when there is room
for all of it, so that a request that is being read can always be finished. A connection that waits
for room is not read from; room is given first come, first served. Large requests leave a quarter of
the room to small ones.

While a connection waits, a check every second finds connections that hold room and make no
progress: of their unfinished request almost nothing came, or their large request is not answered.
These connections are closed. Kafka would close them only after ``connections.max.idle.ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from logging import WARNING
from typing import Final, Protocol

from sharegroup.broker.event_counters import Counters
from sharegroup.model.limits import MODEST_BYTES, UNCLAIMED_BYTES

LOOK_S: Final = 1.0
"""Interval of the checks for connections without progress, while others wait for room."""
STALLED_LOOKS: Final = 2
"""A connection with an unfinished request is closed after this many checks without progress."""
STUCK_LOOKS: Final = 10
"""The same for a connection whose requests are complete and not answered, as a long poll or a slow
disk may cause."""
MOVES_BYTES: Final = 64 << 10
"""Progress is at least this much between two checks: 64 KiB/s, less than any network gives."""
LARGE_BYTES: Final = 1 << 20
"""Requests over this length may fill three quarters of the room, smaller ones all of it."""


class MemoryHolder(Protocol):
    """A connection, as this module sees it."""

    host: str
    held_bytes: int
    """Room that it uses: bytes that came and are not answered, and bytes reserved for it."""
    moved_bytes: int
    """Bytes that came or were answered, since the connection was made."""
    claimed: bool
    """Whether room is reserved for its unfinished request."""
    modest: bool
    """Whether it never held more than MODEST_BYTES."""

    def may_read_again(self) -> None:
        """There is room for the connection's requests again."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class RequestMemory:
    """The room for requests of one broker.

    Args:
        bound: the most bytes of requests; 0 or less means no bound.
        frame_bytes_max: length of the longest request allowed; it must find room.
        everybody: returns the open connections.
        grown: called once with each connection that is no longer ``modest``.
    """

    def __init__(
        self,
        bound: Callable[[], int],
        frame_bytes_max: Callable[[], int],
        everybody: Callable[[], Iterable[MemoryHolder]],
        grown: Callable[[MemoryHolder], None],
        counters: Counters,
    ) -> None:
        self._bound = bound
        self._frame_bytes_max = frame_bytes_max
        self._everybody = everybody
        self._grown = grown
        self._counters = counters
        # Small and large requests wait in separate lines: a large one must not delay small ones.
        self._lines: tuple[dict[MemoryHolder, int], dict[MemoryHolder, int]] = ({}, {})
        self._timer: asyncio.TimerHandle | None = None
        self._seen: dict[MemoryHolder, tuple[int, int]] = {}
        self._modest = 0  # bytes of connections that never held much
        self.used = 0
        self.full = False
        """While true, only connections that ``may_read`` names are read."""

    @property
    def waiting(self) -> int:
        """Connections whose unfinished request waits for room."""
        return sum(map(len, self._lines))

    def may_read(self, holder: MemoryHolder) -> bool:
        """Whether there is room for what ``holder`` sends next."""
        if not self.full or holder.claimed:
            return True
        return holder.modest and self._modest <= self._bound() // 8

    def count(self, holder: MemoryHolder, size: int) -> None:
        """Add ``size`` bytes, which may be negative, to the room that ``holder`` uses."""
        holder.held_bytes += size
        self.used += size
        if holder.modest:
            self._modest += size
            if holder.held_bytes > MODEST_BYTES:
                holder.modest = False
                self._modest -= holder.held_bytes
                self._grown(holder)
        if size < 0:
            if self._timer is not None:  # a connection waits
                self._hand_out()
        elif self.used > LARGE_BYTES and 0 < self._bound() < self.used and not self.full:
            self.full = True
            self._counters.add("request_memory_full")
            self._watch()

    def claim(self, holder: MemoryHolder, missing: int) -> bool:
        """Reserve room for the ``missing`` bytes of an unfinished request. False if it has to
        wait: ``may_read_again`` is called when its turn has come."""
        line = self._lines[self._is_large(holder, missing)]
        if missing > UNCLAIMED_BYTES and (line or not self._fits(holder, missing)):
            line[holder] = missing
            self._watch()
            return False
        self._give(holder, missing)
        return True

    def forget(self, holder: MemoryHolder) -> None:
        """The connection is gone. Requests that still run give their room back when they end."""
        self._seen.pop(holder, None)
        for line in self._lines:
            if line.pop(holder, None) is not None:
                self._hand_out()

    def close(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give(self, holder: MemoryHolder, missing: int) -> None:
        holder.claimed = True
        self.count(holder, missing)

    def _fits(self, holder: MemoryHolder, missing: int) -> bool:
        bound = self._bound()
        if bound <= 0:
            return True
        if self._is_large(holder, missing):
            bound = max(bound * 3 // 4, min(bound, self._frame_bytes_max() + 8 * LARGE_BYTES))
        return self.used + missing <= bound

    def _is_large(self, holder: MemoryHolder, missing: int) -> bool:
        return holder.held_bytes + missing > LARGE_BYTES

    def _hand_out(self) -> None:
        """Give free room to the first in line; resume reading from all connections when enough is
        free."""
        for line in self._lines:
            while line:
                holder, missing = next(iter(line.items()))
                if not self._fits(holder, missing):
                    break
                del line[holder]
                self._give(holder, missing)
                holder.may_read_again()
        if self.full and self.used <= self._bound() * 3 // 4:
            self.full = False
            for holder in self._everybody():
                holder.may_read_again()

    def _watch(self) -> None:
        if self._timer is None:
            self._seen.clear()
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Close connections that hold room and make no progress, if others wait for room."""
        self._timer = None
        if not (self.full or any(self._lines)):
            return
        waiting = {*self._lines[0], *self._lines[1]}
        for holder in self._everybody():
            if holder.held_bytes <= UNCLAIMED_BYTES or holder in waiting:
                continue
            moved, still = self._seen.get(holder, (holder.moved_bytes, -1))
            still = still + 1 if holder.moved_bytes - moved < MOVES_BYTES else 0
            self._seen[holder] = (holder.moved_bytes, still)
            if still >= (STALLED_LOOKS if holder.claimed else STUCK_LOOKS):
                detail = f"dropping {holder.host}: it holds {holder.held_bytes} bytes, no progress"
                self._counters.say(WARNING, "connections_dropped", detail, "request memory")
                holder.abort()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
