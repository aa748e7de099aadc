"""Settles a batch when Spark has committed it, before Spark calls again.

Spark's next call comes with the next trigger: perhaps an hour later, and never after
``Trigger.Once``. The files of a sink name the commit that they wait for; when that commit is in the
checkpoint, the batch is finished. With implicit acknowledgement, and with decisions from
``foreachBatch``, the checkpoint is not known: they wait for Spark's call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from sharegroup.spark.ack_files import Inbox
from sharegroup.spark.source.offsets import BatchOffset

CHECK_SECONDS: Final = 0.5


class CommitWatch:
    """See the module.

    Args:
        inbox: None: there is nothing to watch.
        names: the topics that the source reads.
        settle: settles the batch, unless Spark has a later batch by now.
    """

    def __init__(
        self,
        inbox: Inbox | None,
        names: Callable[[], Collection[str]],
        settle: Callable[[BatchOffset], Awaitable[None]],
    ) -> None:
        self._inbox = inbox
        self._names = names
        self._settle = settle
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, batch: BatchOffset) -> None:
        """Spark has this batch: watch for its commit."""
        if self._inbox is not None:
            self.end()
            self._inbox.begin()
            self._ended = asyncio.Event()
            watch = self._watch(batch, self._ended)
            self._task = asyncio.create_task(watch, name="share-commit-watch")

    def end(self) -> None:
        """Spark has called: stop watching. If the batch is being settled, that goes on."""
        self._ended.set()

    async def check(self, batch: BatchOffset) -> bool:
        """Settle this batch if Spark has committed it. Returns whether it had."""
        if self._inbox is None or not await asyncio.to_thread(self._inbox.committed, self._names()):
            return False
        await self._settle(batch)
        return True

    async def _watch(self, batch: BatchOffset, ended: asyncio.Event) -> None:
        while not ended.is_set():
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await ended.wait()
            except TimeoutError:
                if await self.check(batch):
                    return
