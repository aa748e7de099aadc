"""Starts a producer, once, however many records ask for it."""

from __future__ import annotations

import asyncio
from typing import Any

from sharegroup.client.closing import result_of
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.producer.sender import ProduceSender
from sharegroup.client.producer.transactions import TransactionRequests


class ProducerStart:
    """Connects, identifies the producer, and starts its sender.

    It holds no reference to the producer: a producer that nobody holds any more must be noticed at
    once, and not when Python next looks for cycles.

    Attributes:
        loop: the event loop on which the start began.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactions: TransactionRequests | None,
        sender: ProduceSender,
    ) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._cluster = cluster
        self._transactions = transactions
        self._sender = sender
        self._task: asyncio.Task[None] | None = None

    async def done(self) -> None:
        """Begin the start, if it has not begun, and wait for its end.

        Raises:
            BootstrapError: no broker could be reached; the next call tries again.
            IllegalState: the producer was closed meanwhile.
        """
        if self._task is None:
            self.loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._start(), name="producer-start")
            self._task.add_done_callback(_seen)
        await result_of(self._task)

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop the start. Returns the cancelled tasks, which are about to end."""
        task = self._task
        if task is None:
            return []
        task.cancel()
        return [task]

    async def _start(self) -> None:
        try:
            await self._cluster.start()
            if self._transactions is not None:
                await self._transactions.identify()
        except BaseException:
            self._task = None
            raise
        self._sender.start()


def _seen(task: asyncio.Task[None]) -> None:
    """Mark the task's error as seen: a waiting caller has it, or the next call tries again."""
    if not task.cancelled():
        task.exception()
