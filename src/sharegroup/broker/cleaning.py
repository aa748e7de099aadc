"""Cleans compacted logs in the background (Kafka class LogCleaner)."""

from __future__ import annotations

import asyncio

from sharegroup.broker.parts import BrokerParts


async def clean_logs(parts: BrokerParts) -> None:
    """Clean one log after the other; wait ``log.cleaner.backoff.ms`` when there is none to clean.
    Ends when the broker closes."""
    while not parts.waiters.closed:
        config = parts.configs.broker
        cleaned = config.flag("log.cleaner.enable") and await parts.store.clean(
            parts.clock.wall_ms(), config.integer("log.cleaner.dedupe.buffer.size")
        )
        if not cleaned:
            await asyncio.sleep(config.integer("log.cleaner.backoff.ms") / 1000)
