"""Acquires the next batch while Spark works on the present one.

Requests do not wait at the broker: a waiting request would delay the acknowledgements sent after
it. After a request that brings no records there is a pause.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sharegroup.model.errors import KafkaError
from sharegroup.spark.source.holding.acquiring import Acquirer
from sharegroup.spark.source.holding.claims import ClaimError
from sharegroup.spark.source.holding.ledger import Ledger

log = logging.getLogger("sharegroup.spark")

PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 2.0


class Prefetcher:
    """See the module. Call :meth:`begin` when a batch was given to Spark, and :meth:`end` when
    Spark asks for the next one."""

    def __init__(self, acquirer: Acquirer, ledger: Ledger, turn: asyncio.Lock) -> None:
        self._acquirer = acquirer
        self._ledger = ledger
        self._turn = turn
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, limit: int | None) -> None:
        """Acquire until a batch of ``limit`` records is ready, within the bounds for all records
        that may be held."""
        self.end()
        self._ended = asyncio.Event()
        self._task = asyncio.create_task(self._run(limit, self._ended), name="share-prefetch")

    def end(self) -> None:
        """Send no further request; a request under way goes on to its end."""
        self._ended.set()

    def stop(self) -> None:
        """End at once. Records of a request under way are released when the session ends."""
        self.end()
        if self._task is not None:
            self._task.cancel()

    async def _run(self, limit: int | None, ended: asyncio.Event) -> None:
        pause_s = PAUSE_SECONDS
        try:
            while True:
                async with self._turn:
                    room = self._room(limit)
                    if ended.is_set() or room <= 0:
                        return
                    came = await self._acquirer.fetch(room, 0)
                if came.new:
                    pause_s = PAUSE_SECONDS
                    continue
                if await _within(ended, pause_s):
                    return
                pause_s = min(2 * pause_s, PAUSE_SECONDS_MAX)
        except (
            KafkaError,
            ClaimError,
        ) as error:  # Spark's next call gets the same error and reports it
            log.info("prefetching ended: %s", error)

    def _room(self, limit: int | None) -> int:
        ready = self._acquirer.ready
        free = self._acquirer.most_records() - self._ledger.statistics().in_batch - ready
        return free if limit is None else min(free, limit - ready)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set within this time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
