"""Several pieces of work at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
AT_ONCE: Final = 8


async def side_by_side(work: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """The results of all, of which AT_ONCE run at a time. The first error cancels the rest."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(each: Callable[[], Awaitable[T]]) -> T:
        async with room:
            return await each()

    tasks = [asyncio.create_task(one(each)) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
