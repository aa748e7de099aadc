"""Tries again after transient errors, and waits the pauses of ``core/retry.py`` in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharegroup.client.core.retry import Pauses
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import KafkaError

T = TypeVar("T")


async def retrying(
    cluster: Cluster,
    attempt: Callable[[], Awaitable[T]],
    timeout_ms: float | Callable[[KafkaError], float],
    worth: Callable[[KafkaError], bool] = lambda error: error.retriable,
    on_retry: Callable[[KafkaError, int], None] = lambda _error, _failures: None,
) -> T:
    """The result of ``attempt``: retried, with growing pauses, until it succeeds, or fails with an
    error that is not ``worth`` a retry, or the time-out is over.

    Args:
        timeout_ms: no pause ends later than this after the first attempt began; a function, if
            that depends on the error. ``math.inf``: there is no time-out.
        on_retry: called before each pause with the error, and how many attempts have failed.
    """
    loop = asyncio.get_running_loop()
    began_ms = loop.time() * 1000
    pauses = cluster.pauses()
    while True:
        try:
            return await attempt()
        except KafkaError as error:
            if not worth(error):
                raise
            limit_ms = timeout_ms(error) if callable(timeout_ms) else timeout_ms
            pause_ms = pauses.next_within(loop.time() * 1000, began_ms + limit_ms)
            if pause_ms is None:
                raise
            on_retry(error, pauses.failures)
            await asyncio.sleep(pause_ms / 1000)


async def pause(pauses: Pauses) -> None:
    """Count a failure, and wait until it is time for the next attempt."""
    await asyncio.sleep(pauses.next_ms() / 1000)
