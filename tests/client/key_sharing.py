"""Members of a consumer group that share a partition by key, for tests in several files."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sharegroup import Consumer, Producer
from sharegroup.client import ConsumerRecord
from sharegroup.cooperative.hash_split import WHOLE
from sharegroup.cooperative.intervals import normal, size
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.client.working import fresh, until

KEYS = 40
COUNT = 2_000


@contextmanager
def broker_that_assigns_at_once() -> Iterator[LocalBroker]:
    """It lets members join and leave without pauses."""
    with local_broker(
        configs={
            "group.consumer.min.assignment.interval.ms": 0,
            "group.consumer.assignment.interval.ms": 0,
        }
    ) as broker:
        yield broker


def shared_topic(broker: LocalBroker, partitions: int = 1) -> str:
    name = fresh("shared")
    broker.create_topic(name, partitions, **{"accept.range.fetch": "true"})
    return name


async def write(
    broker: LocalBroker, topic: str, count: int = COUNT, *, pause_s: float = 0.0
) -> None:
    async with Producer(broker.bootstrap, linger_ms=1) as producer:
        for number in range(count):
            await producer.enqueue(topic, b"%d" % number, key=b"key-%d" % (number % KEYS))
            if number % 50 == 49:
                await producer.flush()
                await asyncio.sleep(pause_s)


class Member:
    """A member that notes what it reads, until it is stopped."""

    def __init__(
        self, broker: LocalBroker, topic: str, group: str, *, work_s: float = 0, **settings: Any
    ) -> None:
        defaults = {"key_ranges": True, "auto_offset_reset": "earliest"}
        defaults["auto_commit_interval_ms"] = 100
        self.consumer = Consumer(
            topic,
            group_id=group,
            bootstrap_servers=broker.bootstrap,
            fetch_max_wait_ms=50,
            **defaults | settings,
        )
        self.work_s = work_s
        self.read: list[ConsumerRecord] = []
        self.started = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self.consumer:
            self.started.set()
            async for record in self.consumer:
                if self.work_s:
                    await asyncio.sleep(self.work_s)
                self.read.append(record)

    async def stop(self) -> None:
        """Close it in order, once it has begun: on a busy machine it may not have yet."""
        await self.started.wait()
        await self.consumer.close()
        await self.task

    def kill(self) -> None:
        """End it without a word to the group."""
        self.consumer._parts.cut()
        self.task.cancel()

    @property
    def parts(self) -> dict[TopicPartition, Any]:
        return {w: self.consumer.key_ranges.get(w, WHOLE) for w in self.consumer.assignment}


def is_shared_out(members: list[Member], partitions: int) -> bool:
    """Each partition is with the members, whole, and no hash is with two of them."""
    by_partition = defaultdict(list)
    for member in members:
        for where, ranges in member.parts.items():
            by_partition[where] += list(ranges)
    return len(by_partition) == partitions and all(
        normal(ranges) == WHOLE and sum(size((one,)) for one in ranges) == size(WHOLE)
        for ranges in by_partition.values()
    )


def values(members: list[Member]) -> list[int]:
    return [int(record.value or b"") for member in members for record in member.read]


async def committed(broker: LocalBroker, topic: str, group: str, partitions: int = 1) -> int:
    async with Consumer(topic, group_id=group, bootstrap_servers=broker.bootstrap) as one:
        found = await one.committed(*((topic, at) for at in range(partitions)))
    return sum(0 if at is None else at.offset for at in found.values())


def check_order(members: list[Member]) -> None:
    """What a member reads of a key comes in the log's order."""
    for member in members:
        last: dict[Any, int] = {}
        for record in member.read:
            key = (record.partition, record.key)
            assert last.get(key, -1) < record.offset
            last[key] = record.offset


async def come_and_go(
    broker: LocalBroker, topic: str, group: str, **way: Any
) -> tuple[list[Member], list[Member]]:
    """Members join and leave, some of these without a word, until all records are read. Returns
    those that are left, and all."""
    members = [Member(broker, topic, group, **way) for _ in range(3)]
    everybody = list(members)
    writing = asyncio.create_task(write(broker, topic, pause_s=0.02))
    for step in range(6):
        await asyncio.sleep(0.3)
        one = Member(broker, topic, group, **way)
        members.append(one)
        everybody.append(one)
        gone = members.pop(0)
        if step % 3 == 2:
            gone.kill()
        else:
            await gone.stop()
    await writing
    await until(lambda: set(values(everybody)) == set(range(COUNT)))
    return members, everybody
