"""What the tests against real brokers have in common: fresh names, topics and records."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sharegroup.client import Admin, Producer, Record, ShareConsumer

T = TypeVar("T")
_numbers = itertools.count(1)
WAIT_S = 100.0
"""Enough on a machine with much other work. A test that hangs is ended by its stage's limit."""


def fresh(word: str) -> str:
    """A name that no other test of this process has."""
    return f"{word}-{next(_numbers)}"


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it on a loop of its own; a scenario that hangs fails."""

    async def limited() -> None:
        async with asyncio.timeout(2 * WAIT_S):
            await scenario()

    asyncio.run(limited())


async def eventually(read: Callable[[], Coroutine[Any, Any, T]], holds: Callable[[T], bool]) -> T:
    """What ``read`` gives once it ``holds``: a change that Apache Kafka's controller has confirmed
    may reach its broker a moment later.
    """
    async with asyncio.timeout(WAIT_S):
        found = await read()
        while not holds(found):
            found = await read()
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Look until it holds, and let others work in between."""

    async def look() -> bool:
        await asyncio.sleep(0.02)
        return holds()

    await eventually(look, bool)


async def topic_with(
    bootstrap: str, count: int, *, partitions: int = 1, group: str | None = None
) -> tuple[str, str]:
    """A new topic with the values ``0`` … ``count - 1``, and a group that begins at its start.

    Nothing is deleted by age: a test's records may have times of 1970.
    """
    topic, group = fresh("topic"), group or fresh("group")
    async with Admin(bootstrap) as admin:
        await admin.create_topics(topic, partitions=partitions, configs={"retention.ms": "-1"})
        await admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
    await produce(bootstrap, topic, count)
    return topic, group


async def produce(bootstrap: str, topic: str, count: int, *, first: int = 0) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(first, first + count):
            await producer.enqueue(topic, str(number), key=str(number))


async def poll_until(
    consumer: ShareConsumer, count: int, said: Callable[[Record], None] | None = None
) -> list[Record]:
    """Poll until there are ``count`` records; ``said`` is called with each (explicit mode)."""
    records: list[Record] = []
    async with asyncio.timeout(WAIT_S):
        while len(records) < count:
            for record in await consumer.poll():
                records.append(record)
                if said is not None:
                    said(record)
    return records


def numbers(records: list[Record]) -> list[int]:
    """The values as numbers, sorted."""
    return sorted(int(record.value or b"-1") for record in records)
