"""How a close ends, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

CANCELLED_CLOSE_S: Final = 2.0
"""A close that is cancelled goes on for so long; then all is cut."""


async def finish(closing: asyncio.Task[None]) -> None:
    """Await a close to its end. Cancelled meanwhile, it has :data:`CANCELLED_CLOSE_S` left, then it
    is cut; the caller's cancellation goes on afterwards.
    """
    cancelled: asyncio.CancelledError | None = None
    while not closing.done():
        try:
            await asyncio.wait([closing])
        except asyncio.CancelledError as error:
            if cancelled is None:
                asyncio.get_running_loop().call_later(CANCELLED_CLOSE_S, closing.cancel)
            cancelled = error
    if cancelled is not None:
        if not closing.cancelled():
            closing.exception()  # seen: the cancellation is what is raised
        raise cancelled
    closing.result()


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these, and wait until they have ended."""
    others = [task for task in tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
