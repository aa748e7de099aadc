"""Fetches that wait: for new data, for released records, for room in a window.

A waiting fetch watches the partitions it asks for and looks again each time one of them is woken.
Kafka calls this a purgatory of delayed operations; ours holds no operation, only who wants to look
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

from sharegroup.model.ids import TopicIdPartition

Key = TypeVar("Key")


class Waiter:
    """One fetch that waits.

    A wake between two looks is not lost: :meth:`wait` returns at once then.
    """

    __slots__ = ("_future", "_waiters", "_woken", "connection", "keys")

    def __init__(
        self, waiters: Waiters, keys: tuple[TopicIdPartition, ...], connection: object
    ) -> None:
        self._waiters = waiters
        self.keys = keys
        self.connection = connection
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def __enter__(self) -> Waiter:
        self._waiters.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waiters.remove(self)

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
    """All waiting fetches, by partition and by the connection that asked."""

    def __init__(self) -> None:
        self._by_key: dict[TopicIdPartition, set[Waiter]] = {}
        self._by_connection: dict[object, set[Waiter]] = {}

    def __len__(self) -> int:
        """How many fetches wait."""
        return sum(map(len, self._by_connection.values()))

    def watch(self, keys: Iterable[TopicIdPartition], connection: object) -> Waiter:
        """A context manager that watches ``keys`` while it is entered; without any it is woken only
        with its connection, and when everything is."""
        return Waiter(self, tuple(dict.fromkeys(keys)), connection)

    def add(self, waiter: Waiter) -> None:
        """Start waking ``waiter``."""
        self._by_connection.setdefault(waiter.connection, set()).add(waiter)
        for key in waiter.keys:
            self._by_key.setdefault(key, set()).add(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Stop it."""
        _discard(self._by_connection, waiter.connection, waiter)
        for key in waiter.keys:
            _discard(self._by_key, key, waiter)

    def wake(self, key: TopicIdPartition) -> None:
        """Let every fetch that watches ``key`` look again."""
        for waiter in tuple(self._by_key.get(key, ())):
            waiter.wake()

    def wake_all(self) -> None:
        """Let everything look again: the broker is stopping."""
        for waiting in list(self._by_connection.values()):
            for waiter in tuple(waiting):
                waiter.wake()

    def wake_connection(self, connection: object) -> None:
        """Let the fetches of one connection look again: it is gone, or its session has ended."""
        for waiter in tuple(self._by_connection.get(connection, ())):
            waiter.wake()


def _discard(index: dict[Key, set[Waiter]], key: Key, waiter: Waiter) -> None:
    """Take ``waiter`` out, and its entry with the last one."""
    waiting = index[key]
    waiting.discard(waiter)
    if not waiting:
        del index[key]
