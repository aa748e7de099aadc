"""The earliest deadline of many keys, where deadlines often move and mostly to later times."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush


class Deadlines:
    """Keys in order of the times at which somebody should look at them.

    A deadline that moves to a later time costs nothing: its key comes up early, and the owner sets
    it again. So a key is in the heap about once.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._queued: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._queued)

    def set(self, key: str, at_ms: int) -> None:
        """Let ``key`` come up at ``at_ms`` or earlier."""
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            heappush(self._heap, (at_ms, key))

    def keys(self) -> Iterable[str]:
        """The keys that will come up."""
        return self._queued.keys()

    def next_ms(self) -> int | None:
        """When the next key comes up."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> list[str]:
        """Take out the keys whose time has come."""
        keys = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, key = heappop(self._heap)
            if self._queued.get(key) == at_ms:
                del self._queued[key]
                keys.append(key)
        return keys
