"""Lets a close finish even if its caller is cancelled, and tells a close from a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from sharegroup.client.errors import IllegalState

T = TypeVar("T")

CANCELLED_CLOSE_S: Final = 2.0
"""How long, in seconds, a cancelled close goes on before it is aborted."""


async def finish(closing: asyncio.Task[None]) -> None:
    """Await a close to its end. If the caller is cancelled, the close has
    :data:`CANCELLED_CLOSE_S` left, then it is aborted; afterwards the cancellation goes on.
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
            closing.exception()  # mark it as seen: the cancellation is raised instead
        raise cancelled
    closing.result()


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks, and wait until they have ended."""
    others = [task for task in tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def result_of(shared: asyncio.Task[T]) -> T:
    """The result of a task that several callers wait for, and that a close cancels. A cancelled
    caller does not cancel the task.

    Raises:
        IllegalState: the client was closed meanwhile.
    """
    try:
        return await asyncio.shield(shared)
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        # Both ends of a shield raise CancelledError: only a caller that somebody has cancelled is
        # to end as cancelled.
        if shared.cancelled() and caller is not None and not caller.cancelling():
            raise closed_meanwhile() from None
        raise


def closed_meanwhile() -> IllegalState:
    """The error of a call that was under way when its client was closed."""
    return IllegalState("the client was closed during the call")
