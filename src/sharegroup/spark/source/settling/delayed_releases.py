"""Releases held records when their delay is over, whether Spark calls or not."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from sharegroup.model.errors import KafkaError
from sharegroup.spark.source.holding.acknowledging import Acknowledging, clock_ms
from sharegroup.spark.source.holding.acquiring import Acquirer
from sharegroup.spark.source.holding.ledger import Ledger

log = logging.getLogger("sharegroup.spark")


class HoldKeeper:
    """Releases the ledger's held records when due; :class:`LockKeeper` renews their locks."""

    def __init__(
        self, ledger: Ledger, acquirer: Acquirer, acknowledging: Acknowledging, turn: asyncio.Lock
    ) -> None:
        self._ledger = ledger
        self._acquirer = acquirer
        self._acknowledging = acknowledging
        self._turn = turn
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def look(self) -> None:
        """A batch was settled: records may be held now."""
        self._changed.set()
        if self._task is None and self._ledger.next_due_ms() is not None:
            self._task = asyncio.create_task(self._keep(), name="share-held-records")

    def stop(self) -> None:
        """Stop releasing."""
        if self._task is not None:
            self._task.cancel()

    async def _keep(self) -> None:
        while True:
            await self._until(self._ledger.next_due_ms())
            async with self._turn:
                try:
                    await self._acquirer.catch_up()
                    await self._acknowledging.release_due()
                except KafkaError as error:  # the ledger still owes these; later ones go on
                    log.warning("delayed records could not be released this time: %s", error)

    async def _until(self, due_ms: int | None) -> None:
        """Return at ``due_ms`` (None: never), or earlier if a batch was settled: its held records
        may be due earlier."""
        wait_s = None if due_ms is None else max(0, due_ms - clock_ms()) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        self._changed.clear()
