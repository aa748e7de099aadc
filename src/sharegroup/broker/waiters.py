"""Fetches that wait: for new data, for released records, for room in a window.

A waiting fetch watches its partitions and looks again each time one of them is woken. Kafka calls
this a purgatory of delayed operations. Ours stores no operations, only waiters to wake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

from sharegroup.model.ids import TopicIdPartition

Key = TypeVar("Key")


class Waiter:
    """One waiting fetch.

    A wake between two looks is not lost: the next :meth:`wait` returns at once.
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
        """Return when woken, or at the loop time ``until``; always yields to other tasks once."""
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
        self.closed = False
        """Whether the broker is stopping: fetches answer with what there is."""

    def __len__(self) -> int:
        """How many fetches wait."""
        return sum(map(len, self._by_connection.values()))

    def watch(self, keys: Iterable[TopicIdPartition], connection: object) -> Waiter:
        """A context manager that watches ``keys`` while it is entered. Without keys it is woken
        only by :meth:`wake_connection`, :meth:`wake_all` and :meth:`close`."""
        return Waiter(self, tuple(dict.fromkeys(keys)), connection)

    def add(self, waiter: Waiter) -> None:
        """Start waking ``waiter``."""
        self._by_connection.setdefault(waiter.connection, set()).add(waiter)
        for key in waiter.keys:
            self._by_key.setdefault(key, set()).add(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Stop waking ``waiter``."""
        _discard(self._by_connection, waiter.connection, waiter)
        for key in waiter.keys:
            _discard(self._by_key, key, waiter)

    def wake(self, key: TopicIdPartition) -> None:
        """Let every fetch that watches ``key`` look again."""
        for waiter in tuple(self._by_key.get(key, ())):
            waiter.wake()

    def wake_all(self) -> None:
        """Let all waiting fetches look again."""
        for waiting in list(self._by_connection.values()):
            for waiter in tuple(waiting):
                waiter.wake()

    def close(self) -> None:
        """The broker stops: no fetch waits from now on."""
        self.closed = True
        self.wake_all()

    def wake_connection(self, connection: object) -> None:
        """Let the fetches of a connection look again: it is closed, or its session has ended."""
        for waiter in tuple(self._by_connection.get(connection, ())):
            waiter.wake()


def _discard(index: dict[Key, set[Waiter]], key: Key, waiter: Waiter) -> None:
    """Remove ``waiter``; remove the entry of ``key`` with its last waiter."""
    waiting = index[key]
    waiting.discard(waiter)
    if not waiting:
        del index[key]
