"""The fetches of a member: at most one from each node is under way, or waits to be taken."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from sharegroup.client.closing import ended
from sharegroup.client.core.fetched import FetchedPartition

_GRACE_S: Final = 0.5
"""How much longer than asked a fetch may take before :meth:`Rounds.first` leaves it to the next
call.
"""
CLOSE_WAIT_S: Final = 1.0

Fetching = Coroutine[Any, Any, list[FetchedPartition]]


class Rounds:
    """See the module. A fetch that its caller does not wait for goes on."""

    def __init__(self) -> None:
        self._tasks: dict[int, asyncio.Task[list[FetchedPartition]]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._tasks

    def begin(self, node_id: int, fetching: Fetching) -> None:
        """Fetch from this node, from which no fetch is under way."""
        self._tasks[node_id] = asyncio.create_task(fetching, name=f"share-fetch-{node_id}")

    async def first(self, wait_s: float) -> list[FetchedPartition]:
        """What has come as soon as one fetch has ended, or within ``wait_s``.

        Raises:
            KafkaError: as the fetch, if no other one has brought anything.
        """
        await asyncio.wait(
            self._tasks.values(),
            timeout=wait_s + _GRACE_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        fetched: list[FetchedPartition] = []
        for node_id, task in list(self._tasks.items()):
            if not task.done() or (fetched and task.exception() is not None):
                continue  # the next call takes its result
            del self._tasks[node_id]
            fetched += task.result()
        return fetched

    async def last(self, wait_s: float | None) -> list[FetchedPartition]:
        """What the fetches bring that end within ``wait_s``; None: all of them."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=wait_s)
        return self._take(node_id for node_id, task in self._tasks.items() if task.done())

    def arrived(self) -> list[FetchedPartition]:
        """What has come and was not taken yet. A fetch that failed is left to the next call."""
        return self._take(
            node_id
            for node_id, task in self._tasks.items()
            if task.done() and task.exception() is None
        )

    def _take(self, node_ids: Iterable[int]) -> list[FetchedPartition]:
        taken = [self._tasks.pop(node_id) for node_id in list(node_ids)]
        return [one for task in taken if task.exception() is None for one in task.result()]

    async def end(self, wait_s: float = CLOSE_WAIT_S) -> list[int]:
        """Wait for the fetches for a moment, then cancel them. What they brought is dropped.
        Returns the nodes whose fetches were cancelled: they may wait there still."""
        if not self._tasks:
            return []
        await asyncio.wait(self._tasks.values(), timeout=wait_s)
        waiting = [node_id for node_id, task in self._tasks.items() if not task.done()]
        await ended(self.cut())  # who waits for them is not cancelled with them
        return waiting

    def cut(self) -> list[asyncio.Task[list[FetchedPartition]]]:
        """Forget all fetches. Returns their tasks, which the caller cancels."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        return tasks
