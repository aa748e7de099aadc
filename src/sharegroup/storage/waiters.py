"""Futures of the callers that wait until an offset is durable."""

from __future__ import annotations

import asyncio


class DurableWaiters:
    """Futures, each with the end offset it waits for."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, end_offset: int) -> asyncio.Future[None]:
        """A future that is done once :meth:`reached` is called with ``end_offset`` or more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((end_offset, waiter))
        return waiter

    def reached(self, end_offset: int) -> None:
        """Complete the futures for ``end_offset`` or less."""
        if not self._waiting:
            return
        waiting = []
        for entry in self._waiting:
            if entry[0] > end_offset:
                waiting.append(entry)
            elif not entry[1].done():
                entry[1].set_result(None)
        self._waiting = waiting

    def fail(self, error: Exception) -> None:
        """Complete all futures with ``error``."""
        waiting, self._waiting = self._waiting, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
