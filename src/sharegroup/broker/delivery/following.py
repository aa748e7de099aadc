"""Lets logs learn of what comes, for members that look into them and may wait then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from sharegroup.broker.waiters import FetchWaiters
from sharegroup.model.errors import KafkaError
from sharegroup.model.log import ReadableLog


async def follow_all(waiters: FetchWaiters, logs: Iterable[ReadableLog]) -> None:
    """Bring the logs up to date that were not followed, and follow them from now on. A log that
    cannot be asked now learns later."""
    old = [log for log in logs if not log.is_followed]
    if old:
        await asyncio.gather(*map(_look, old))
    for log in old:
        waiters.follow(log)


async def _look(log: ReadableLog) -> None:
    try:
        await log.offsets()
    except KafkaError:
        return
