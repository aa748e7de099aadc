"""How many bytes of requests there may be at once, over all connections
(``queued.max.request.bytes``).

What counts is what came and is not answered, and what an unfinished request of more than a few
kilobytes still needs: such a request is read on only when there is room for all of it, so that
requests that are being read can always be finished. Those that must wait are not read from, first
come, first served. Large requests leave a quarter of the room to small ones.

While somebody waits, a look every second finds the connections that hold room and do not move: an
unfinished request of which next to nothing came, or a large one that is not being answered. They
are closed, as Kafka would only do after ``connections.max.idle.ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from logging import WARNING
from typing import Final, Protocol

from sharegroup.broker.metrics.counters import Counters
from sharegroup.model.limits import UNCLAIMED_BYTES

LOOK_S: Final = 1.0
"""How often we look for connections that do not move, while others wait for room."""
STALLED_LOOKS: Final = 2
"""So many looks in a row without movement close a connection whose request is unfinished…"""
STUCK_LOOKS: Final = 10
"""… and so many one whose requests are all here, and not answered: a long poll, a slow disk."""
MOVES_BYTES: Final = 64 << 10
"""Movement is at least this much between two looks: 64 KiB/s, less than any network gives."""
LARGE_BYTES: Final = 1 << 20
"""Requests over this length may fill three quarters of the room, the others all of it."""


class Holder(Protocol):
    """A connection, as this module sees it."""

    host: str
    held_bytes: int
    """What it has of the room: bytes that came and are not answered, and bytes kept for it."""
    moved_bytes: int
    """Bytes that came or were answered, since it was made."""
    claimed: bool
    """Its unfinished request has room kept for it."""

    def may_read_again(self) -> None:
        """There is room."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class RequestMemory:
    """The room for requests of one broker.

    Args:
        bound: how many bytes there may be; 0 or less: as many as come.
        frame_bytes_max: the longest request there may be; it must find room.
        everybody: the open connections.
    """

    def __init__(
        self,
        bound: Callable[[], int],
        frame_bytes_max: Callable[[], int],
        everybody: Callable[[], list[Holder]],
        counters: Counters,
    ) -> None:
        self._bound = bound
        self._frame_bytes_max = frame_bytes_max
        self._everybody = everybody
        self._counters = counters
        # Small and large requests wait in lines of their own: a large one must not hold up others.
        self._lines: tuple[dict[Holder, int], dict[Holder, int]] = ({}, {})
        self._timer: asyncio.TimerHandle | None = None
        self._seen: dict[Holder, tuple[int, int]] = {}
        self.used = 0
        self.full = False
        """Nothing is read but the rest of requests that have room kept for them."""

    @property
    def waiting(self) -> int:
        """Connections whose unfinished request waits for room."""
        return sum(map(len, self._lines))

    def count(self, holder: Holder, size: int) -> None:
        """So many bytes more, or less, are held."""
        holder.held_bytes += size
        self.used += size
        if size < 0:
            if self._timer is not None:  # somebody waits
                self._hand_out()
        elif self.used > LARGE_BYTES and 0 < self._bound() < self.used and not self.full:
            self.full = True
            self._counters.add("request_memory_full")
            self._watch()

    def claim(self, holder: Holder, missing: int) -> bool:
        """Keep room for the ``missing`` bytes of an unfinished request; False: it has to wait,
        ``may_read_again`` is called when its turn has come."""
        line = self._lines[self._is_large(holder, missing)]
        if missing > UNCLAIMED_BYTES and (line or not self._fits(holder, missing)):
            line[holder] = missing
            self._watch()
            return False
        holder.claimed = True
        self.count(holder, missing)
        return True

    def forget(self, holder: Holder) -> None:
        """The connection is gone; what its requests that still run hold is given back later."""
        self._seen.pop(holder, None)
        for line in self._lines:
            if line.pop(holder, None) is not None:
                self._hand_out()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fits(self, holder: Holder, missing: int) -> bool:
        bound = self._bound()
        if bound <= 0:
            return True
        if self._is_large(holder, missing):
            bound = max(bound * 3 // 4, min(bound, self._frame_bytes_max() + 8 * LARGE_BYTES))
        return self.used + missing <= bound

    def _is_large(self, holder: Holder, missing: int) -> bool:
        return holder.held_bytes + missing > LARGE_BYTES

    def _hand_out(self) -> None:
        """Room has come free: the first in line get it, and all are read from again when there is
        a good deal."""
        for line in self._lines:
            while line:
                holder, missing = next(iter(line.items()))
                if not self._fits(holder, missing):
                    break
                del line[holder]
                holder.claimed = True
                holder.held_bytes += missing
                self.used += missing
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
        """Close who holds room and does not move, if others wait for it."""
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
                detail = (
                    f"dropping {holder.host}: it held {holder.held_bytes} bytes and did not move"
                )
                self._counters.say(WARNING, "connections_dropped", detail, "request memory")
                holder.abort()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
