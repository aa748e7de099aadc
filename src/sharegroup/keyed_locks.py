"""One lock per key, kept while a task holds it or waits for it. The broker locks ids of groups,
the store names of topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from types import TracebackType


class KeyedLocks:
    """Locks by key. Unused keys take no memory, because clients choose the keys."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def __contains__(self, key: object) -> bool:
        """Whether a task holds the lock of ``key`` or waits for it."""
        return key in self._locks

    def holding(self, key: Hashable) -> Holding:
        """A context manager that holds the lock of ``key``; entering waits until it is free."""
        return Holding(self._locks, key)


class Holding:
    """See :meth:`KeyedLocks.holding`. For one use.

    Attributes:
        held: whether the lock is held.
    """

    __slots__ = ("_key", "_locks", "held")

    def __init__(self, locks: dict[Hashable, tuple[asyncio.Lock, int]], key: Hashable) -> None:
        self._locks = locks
        self._key = key
        self.held = False

    async def take(self) -> None:
        """Wait until the lock is free, and hold it."""
        lock, users = self._locks.get(self._key) or (asyncio.Lock(), 0)
        self._locks[self._key] = (lock, users + 1)
        try:
            await lock.acquire()
        except BaseException:  # cancelled while waiting
            self._leave()
            raise
        self.held = True

    def give_back(self) -> None:
        """Release the lock, which must be held."""
        self.held = False
        self._locks[self._key][0].release()
        self._leave()

    async def __aenter__(self) -> None:
        await self.take()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give_back()

    def _leave(self) -> None:
        """Count one user less; without users the lock is dropped."""
        lock, users = self._locks[self._key]
        if users == 1:
            del self._locks[self._key]
        else:
            self._locks[self._key] = (lock, users - 1)
