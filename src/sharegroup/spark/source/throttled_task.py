"""Background work that runs on demand, at a limited rate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sharegroup.model.errors import KafkaError

log = logging.getLogger("sharegroup.spark")


class ThrottledTask:
    """Runs ``work`` at most once in ``every_s`` seconds, never twice at a time.

    Args:
        work: the coroutine function. If it fails, that is logged, and the next request runs it
            again.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], every_s: float, name: str) -> None:
        self._work = work
        self._every_s = every_s
        self._name = name
        self._began = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Start the work if it is due; returns at once."""
        now = asyncio.get_running_loop().time()
        if self._task is None and now - self._began >= self._every_s:
            self._began = now
            self._task = asyncio.create_task(self._run(), name=self._name)

    def stop(self) -> None:
        """Cancel the work under way."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._work()
        except KafkaError as error:
            log.info("%s: %s", self._name, error)
        finally:
            self._task = None
