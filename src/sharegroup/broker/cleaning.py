"""Cleans compacted logs in the background (Kafka class LogCleaner)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sharegroup.broker.parts import BrokerParts


class Cleaning:
    """Cleans one log after the other; waits ``log.cleaner.backoff.ms`` when no log needs it.

    Args:
        spawn: runs a coroutine in the background and reports its failure.
    """

    def __init__(
        self, parts: BrokerParts, spawn: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        self._parts = parts
        self._spawn = spawn

    def start(self) -> None:
        """Begin cleaning; it ends when the broker closes."""
        if not self._parts.waiters.closed:
            self._spawn(self._round())

    async def _round(self) -> None:
        config = self._parts.configs.broker
        try:
            if config.flag("log.cleaner.enable"):
                await self._clean_all(config.integer("log.cleaner.dedupe.buffer.size"))
        finally:
            backoff_s = config.integer("log.cleaner.backoff.ms") / 1000
            asyncio.get_running_loop().call_later(backoff_s, self.start)

    async def _clean_all(self, key_bytes_max: int) -> None:
        parts = self._parts
        while not parts.waiters.closed:
            if not await parts.store.clean(parts.clock.wall_ms(), key_bytes_max):
                return
