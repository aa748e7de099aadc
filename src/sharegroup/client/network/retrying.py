"""Tries again after transient errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import KafkaError

T = TypeVar("T")


async def retrying(
    cluster: Cluster,
    attempt: Callable[[], Awaitable[T]],
    timeout_ms: int,
    worth: Callable[[KafkaError], bool] = lambda error: error.retriable,
) -> T:
    """The result of ``attempt``: retried, with growing pauses, until it succeeds, or fails with an
    error that is not ``worth`` a retry, or the time-out is over.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    backoff = cluster.backoff()
    while True:
        try:
            return await attempt()
        except KafkaError as error:
            pause_s = backoff.next_ms() / 1000
            if not worth(error) or loop.time() + pause_s > deadline:
                raise
            await asyncio.sleep(pause_s)
