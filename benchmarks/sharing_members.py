"""Members of a consumer group that share one partition by key ranges: how the group's throughput
grows with them, and what a join costs. Each record takes 1 ms in which nothing is computed; a
member handles one after the other. 1,000 keys are drawn by Zipf's law (s = 1.0).

In Apache Kafka a partition has one member.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from random import Random

from confluent_kafka import Producer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.by_key_program import Timers
from sharegroup import Consumer
from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import Intervals, common, size
from tests.kills.ordering.keyed import zipf_keys
from tests.servers.admin import SILENT

MEMBERS = (1, 2, 4, 8, 16)
WORK_S = 0.001
RECORDS = 120_000
SECONDS = 4.0
JOINED = 4
"""Members before the join that is measured."""
MOVED, PAUSE = "sharing-moved", "sharing-pause"


class Member:
    """A consumer with its task; notes when it has handled a record."""

    def __init__(self, bench: Bench, topic: str, group: str) -> None:
        self.consumer = Consumer(
            topic,
            group_id=group,
            bootstrap_servers=bench.bootstrap,
            auto_offset_reset="earliest",
            key_ranges=True,
            max_poll_records=50,
        )
        self.handled: list[float] = []
        self.begun = asyncio.Event()

    async def run(self) -> None:
        timers = Timers(WORK_S)
        async with self.consumer:
            async for _ in self.consumer:
                await timers.sleep()
                self.handled.append(time.monotonic())
                self.begun.set()

    @property
    def part(self) -> Intervals:
        """Its part of the hash space."""
        for where in self.consumer.assignment:
            return tuple(self.consumer.key_ranges.get(where, WHOLE))
        return ()


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    found = {
        _key(count): asyncio.run(_throughput(bench, _loaded(bench), count)) for count in MEMBERS
    }
    return found | asyncio.run(_join(bench, _loaded(bench)))


def _key(members: int) -> str:
    return f"sharing-{members}"


def _loaded(bench: Bench) -> str:
    topic = bench.new_name()
    bench.admin.create_topic(topic, 1, **{"accept.range.fetch": "true"})
    producer = Producer(
        {"bootstrap.servers": bench.bootstrap, "queue.buffering.max.messages": 1_000_000, **SILENT}
    )
    for _, key in zip(range(RECORDS), zipf_keys(Random(1)), strict=False):
        producer.produce(topic, bytes(100), key=key)
    assert producer.flush(60) == 0
    return topic


async def _begin(stack: AsyncExitStack, members: list[Member]) -> None:
    """Until each has handled a record."""
    for member in members:
        task = asyncio.create_task(member.run())
        stack.push_async_callback(asyncio.wait, [task])
        stack.push_async_callback(member.consumer.close)
    async with asyncio.timeout(120):
        for member in members:
            await member.begun.wait()


async def _throughput(bench: Bench, topic: str, count: int) -> float:
    """Records per second."""
    group = bench.new_name()
    members = [Member(bench, topic, group) for _ in range(count)]
    async with AsyncExitStack() as stack:
        await _begin(stack, members)
        seconds = bench.scale.seconds(SECONDS)
        begun, before = time.monotonic(), sum(len(one.handled) for one in members)
        await asyncio.sleep(seconds)
        handled = sum(len(one.handled) for one in members) - before
        return handled / (time.monotonic() - begun)


async def _join(bench: Bench, topic: str) -> dict[str, float]:
    """How much of the hash space leaves members that stay, and their longest time without a record
    while another one joins, in milliseconds."""
    group = bench.new_name()
    members = [Member(bench, topic, group) for _ in range(JOINED)]
    async with AsyncExitStack() as stack:
        await _begin(stack, members)
        await asyncio.sleep(1)
        parts = [member.part for member in members]
        begun = time.monotonic()
        await _begin(stack, [Member(bench, topic, group)])
        await asyncio.sleep(1)
        kept = sum(
            size(common(before, member.part)) for before, member in zip(parts, members, strict=True)
        )
        gaps = [
            after - before
            for member in members
            for before, after in zip(member.handled, member.handled[1:], strict=False)
            if after > begun
        ]
    return {MOVED: 1 - kept / (HASH_MAX + 1), PAUSE: max(gaps) * 1000}


BENCHMARK = Benchmark(
    name="sharing-members",
    rows=(
        *(
            Row(
                key=_key(count),
                title=f"one partition shared by key, 1 ms of work: {count} members"
                if count > 1
                else "one partition, 1 ms of work: 1 member",
                unit="records/s",
                higher_is_better=True,
            )
            for count in MEMBERS
        ),
        Row(key=MOVED, title="a fifth member joins: part of the keys that moves", unit="×"),
        Row(key=PAUSE, title="… longest pause of a member that stays", unit="ms"),
    ),
    run=run,
    rounds_max=3,
)
