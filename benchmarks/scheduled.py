"""Records that are sent for later: what 100,000 and 1,000,000 of them cost a group that waits for
them, in memory, at a restart, and the drain of fresh records beside them.

Our producer sends records of 100 B to 4 partitions, due at times spread over a day that begins in
an hour, each at one of its own (``deliver_at=…``). A fetch passes over them all. Memory is what the
server has more than before. The restart is after kill -9, from the start of the process until a
fresh record that was sent last is received: the broker reads what rests again. Then 300,000 fresh
records come into the same partitions, and Java's ShareConsumerPerformance drains them, three times;
the median of the rates is compared with that of a group with the same setting where nothing rests.

Apache Kafka has no schedules. Three rounds at most: each sends 1.1 M records.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.benchmark import Bench, Benchmark
from benchmarks.delayed import (
    FRESH,
    MIB,
    PARTITIONS,
    READY_SECONDS,
    RECORD_BYTES,
    RESTING,
    drained,
    rows,
)
from sharegroup import Admin, Producer, ShareConsumer

SOON_MS: Final = 3_600_000
DAY_MS: Final = 24 * SOON_MS
STEP_MS: Final = 7_919_993
"""From one record's time to the next one's, within the day."""


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    bench.server.prepare()
    bench.server.start()
    fresh = bench.scale.records(FRESH)
    alone, group = bench.new_topic(PARTITIONS), bench.new_group()
    asyncio.run(turn_on(bench.bootstrap, group))
    free = drained(bench, alone, group, fresh)
    found: dict[str, float] = {}
    for resting in RESTING:
        found |= measured(bench, resting, fresh, free)
    return found


def measured(bench: Bench, resting: int, fresh: int, free: float) -> dict[str, float]:
    """The rows of so many records that rest; ``free`` is the rate where nothing rests."""
    records = bench.scale.records(resting)
    topic, group = bench.new_topic(PARTITIONS), bench.new_group()
    asyncio.run(turn_on(bench.bootstrap, group))
    asyncio.run(send_for_later(bench.bootstrap, topic, records))
    before = bench.server.usage().memory_bytes
    asyncio.run(until_fresh(bench.bootstrap, topic, group))
    memory = bench.server.usage().memory_bytes - before
    bench.server.kill()
    began = time.perf_counter()
    bench.server.start_and_probe()
    asyncio.run(until_fresh(bench.bootstrap, topic, group))
    restart = time.perf_counter() - began
    beside = drained(bench, topic, group, fresh)
    bench.admin.delete_topic(topic)
    return {
        f"scheduled-{resting}-memory": memory / MIB,
        f"scheduled-{resting}-restart": restart,
        f"scheduled-{resting}-share": beside / free,
    }


async def turn_on(bootstrap: str, group: str) -> None:
    """Let the group obey the header, from the beginning of its topics."""
    settings = {
        "share.record.schedule.header.enable": "true",
        "share.auto.offset.reset": "earliest",
    }
    async with Admin(bootstrap) as admin:
        await admin.alter_configs("group", group, settings)


async def send_for_later(bootstrap: str, topic: str, records: int) -> None:
    """Send so many records for later, each for a time of its own."""
    now_ms = time.time_ns() // 1_000_000
    value = bytes(RECORD_BYTES)
    async with Producer(bootstrap) as producer:
        for number in range(records):
            due_ms = now_ms + SOON_MS + number * STEP_MS % DAY_MS
            await producer.enqueue(topic, value, deliver_at=due_ms)


async def until_fresh(bootstrap: str, topic: str, group: str) -> None:
    """Return when a record behind all of them has been received, from each partition."""
    async with asyncio.timeout(READY_SECONDS):
        async with Producer(bootstrap) as producer:
            for partition in range(PARTITIONS):
                await producer.send(topic, b"fresh", partition=partition)
        async with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
            received = 0
            while received < PARTITIONS:
                received += len(await consumer.poll())


BENCHMARK = Benchmark(
    name="scheduled",
    rows=rows("scheduled", "records sent for later"),
    run=run,
    fresh_server=True,
    rounds_max=3,
)
