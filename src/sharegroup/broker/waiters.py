"""Fetches that wait: for new data, for released records, for room in a window.

A waiting fetch watches the partitions it asks for and looks again each time one of them is woken.
Kafka calls this a purgatory of delayed operations; ours holds no operation, only who wants to look
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType

from sharegroup.model.ids import TopicIdPartition


class Waiter:
    """One fetch that waits.

    A wake between two looks is not lost: :meth:`wait` returns at once then.
    """

    __slots__ = ("_future", "_keys", "_waiters", "_woken")

    def __init__(self, waiters: Waiters, keys: tuple[TopicIdPartition, ...]) -> None:
        self._waiters = waiters
        self._keys = keys
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def __enter__(self) -> Waiter:
        self._waiters.add(self, self._keys)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waiters.remove(self, self._keys)

    def wake(self) -> None:
        """Something may have changed: look again."""
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, until: float) -> None:
        """Return when woken, or at the loop time ``until``; others get their turn in any case."""
        loop = asyncio.get_running_loop()
        if self._woken or until <= loop.time():
            await asyncio.sleep(0)
        else:
            self._future = loop.create_future()
            timer = loop.call_at(until, self.wake)
            try:
                await self._future
            finally:
                timer.cancel()
                self._future = None
        self._woken = False


class Waiters:
    """All waiting fetches, by partition."""

    def __init__(self) -> None:
        self._all: set[Waiter] = set()
        self._by_key: dict[TopicIdPartition, set[Waiter]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many fetches watch."""
        return self._count

    def watch(self, keys: Iterable[TopicIdPartition]) -> Waiter:
        """A context manager that watches ``keys`` while it is entered; without any it is woken only
        when the broker stops."""
        return Waiter(self, tuple(keys))

    def add(self, waiter: Waiter, keys: Iterable[TopicIdPartition]) -> None:
        """Start waking ``waiter`` for ``keys``."""
        self._count += 1
        self._all.add(waiter)
        for key in keys:
            self._by_key.setdefault(key, set()).add(waiter)

    def remove(self, waiter: Waiter, keys: Iterable[TopicIdPartition]) -> None:
        """Stop it."""
        self._count -= 1
        self._all.discard(waiter)
        for key in keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.discard(waiter)
                if not waiting:
                    del self._by_key[key]

    def wake(self, key: TopicIdPartition) -> None:
        """Let every fetch that watches ``key`` look again."""
        for waiter in tuple(self._by_key.get(key, ())):
            waiter.wake()

    def wake_all(self) -> None:
        """Let everything look again: the broker is stopping."""
        for waiter in tuple(self._all):
            waiter.wake()
