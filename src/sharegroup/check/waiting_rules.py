"""The rules of waiting: who asks gets what is there (L1, L2), and does not ask in a frenzy (L4).

They hold after ``calm``: faults are over, and nothing hinders a group. A record that was available
is delivered to the next member of its partition that polls. So no poll of such a member may come
back empty, having begun after the record was free and ended before it was asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

LATE_MS: Final = 1_000
"""A broker may take so long to notice that a lock has ended."""
POLL_MS: Final = 500
"""A poll that was shorter may have been too short."""
QUICK_MS: Final = 10
SPIN_MS: Final = 1_000
SPINS_MAX: Final = 100
"""So many polls of a member may come back empty within QUICK_MS, in SPIN_MS."""


class EmptyPolls:
    """The polls of one share partition's members that came back empty after a while."""

    def __init__(self) -> None:
        self._ended_ms: list[float] = []
        self._begun_ms: list[float] = []
        """When the latest poll began that ended until then."""

    def add(self, asked_ms: float, now_ms: float) -> None:
        """A poll that was made at ``asked_ms`` has come back empty."""
        latest = self._begun_ms[-1] if self._begun_ms else float("-inf")
        if now_ms - asked_ms >= POLL_MS and asked_ms > latest:
            self._ended_ms.append(now_ms)
            self._begun_ms.append(asked_ms)

    def between(self, free_ms: float, asked_ms: float) -> bool:
        """Whether one of them began well after ``free_ms``, and ended before ``asked_ms``."""
        at = bisect_left(self._ended_ms, asked_ms)
        return at > 0 and self._begun_ms[at - 1] > free_ms + LATE_MS


class Spinning:
    """The polls of one member that came back empty at once."""

    def __init__(self) -> None:
        self._quick_ms: deque[float] = deque()
        self._told = False

    def add(self, asked_ms: float, now_ms: float) -> bool:
        """A poll has come back empty. Returns whether these are too many now, once."""
        if self._told or now_ms - asked_ms >= QUICK_MS:
            return False
        self._quick_ms.append(now_ms)
        while self._quick_ms[0] < now_ms - SPIN_MS:
            self._quick_ms.popleft()
        self._told = len(self._quick_ms) > SPINS_MAX
        return self._told
