"""What the tests of workers have in common: a topic of numbers, and a run until something holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sharegroup.client import Record, ShareConsumer
from sharegroup.testing.local_broker import LocalBroker
from tests.client.working import WAIT_S, fresh


def jobs(kafka: LocalBroker, count: int, **configs: object) -> tuple[str, str]:
    """A topic with the values ``0`` … ``count - 1``, in one batch, and a group for it."""
    topic, group = fresh("jobs"), fresh("workers")
    kafka.create_topic(topic)
    kafka.configure_group(group, share_auto_offset_reset="earliest", **configs)
    if count:
        kafka.produce(topic, [str(number) for number in range(count)])
    return topic, group


def member(kafka: LocalBroker, topic: str, group: str, **settings: Any) -> ShareConsumer:
    return ShareConsumer(topic, group_id=group, bootstrap_servers=kafka.bootstrap, **settings)


def worker_metrics(consumer: ShareConsumer) -> dict[str, float]:
    values = consumer.metrics()
    return {name: value for (group, name), value in values.items() if "worker" in group}


async def work(
    consumer: ShareConsumer,
    handler: Callable[[Record], Awaitable[object]],
    holds: Callable[[dict[str, float]], bool],
    **settings: Any,
) -> dict[str, float]:
    """Run until the worker's metrics are as wanted; the last ones."""

    async def watch() -> None:
        await until(lambda: (seen := worker_metrics(consumer)) and holds(seen))
        consumer.stop()

    async with asyncio.TaskGroup() as both:
        watching = both.create_task(watch())
        await consumer.run(handler, **settings)
        watching.cancel()
    return worker_metrics(consumer)


async def until(holds: Callable[[], object]) -> None:
    """Wait for what no event tells."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def nothing(record: Record) -> None:
    """A handler for records that are done at once."""
