"""How late records come that were put off: from the time at which a record is due until a share
consumer has it.

10,000 records of 100 B in 4 partitions are due one after another, over 20 s. They are sent for
later (``deliver_at=…``), or were received once and given back (``release(record, delay_ms=…)``).
One consumer of ours, in one process with the producer and on one clock, waits for them.

Apache Kafka puts no records off. One round at most: the rows are about 10,000 records each.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.delayed import PARTITIONS, RECORD_BYTES
from benchmarks.scheduled import turn_on
from sharegroup import Producer, Record, ShareConsumer

RECORDS, SECONDS = 10_000, 20
LEAD_MS = 5_000
WAIT_SECONDS = 60
WAYS = {"scheduled": "sent for later", "delayed": "given back with a delay"}

Due = dict[tuple[int, int], float]
"""When records are due, in milliseconds since 1970, by partition and offset."""


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    found: dict[str, float] = {}
    for way in WAYS:
        topic, group = bench.new_topic(PARTITIONS), bench.new_group()
        records = bench.scale.records(RECORDS)
        late = sorted(asyncio.run(lateness(bench.bootstrap, topic, group, way, records)))
        assert late[0] >= 0, "a record came before its time"
        found[f"due-{way}-p50"] = late[len(late) // 2]
        found[f"due-{way}-p99"] = late[len(late) * 99 // 100]
    return found


async def lateness(bootstrap: str, topic: str, group: str, way: str, records: int) -> list[float]:
    """By how many milliseconds each of the records came late."""
    await turn_on(bootstrap, group)
    async with (
        asyncio.timeout(WAIT_SECONDS),
        ShareConsumer(
            topic, group_id=group, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
        ) as consumer,
    ):
        now_ms = time.time_ns() / 1e6
        times = [now_ms + LEAD_MS + number * SECONDS * 1000 / RECORDS for number in range(records)]
        due = await send(bootstrap, topic, times, for_later=way == "scheduled")
        if way == "delayed":
            await give_back(consumer, due)
        late: list[float] = []
        while len(late) < records:
            found = await consumer.poll()
            now_ms = time.time_ns() / 1e6
            late += [now_ms - due[place(one)] for one in found]
            consumer.accept(*found)
    return late


async def send(bootstrap: str, topic: str, times: list[float], *, for_later: bool) -> Due:
    """Send a record for each of these times; returns when each of the records is due."""
    async with Producer(bootstrap) as producer:
        sent = [
            await producer.enqueue(
                topic,
                bytes(RECORD_BYTES),
                partition=number % PARTITIONS,
                deliver_at=int(due_ms) if for_later else None,
            )
            for number, due_ms in enumerate(times)
        ]
        places = [await one for one in sent]
    return {(at.partition, at.offset): float(int(ms)) for at, ms in zip(places, times, strict=True)}


async def give_back(consumer: ShareConsumer[bytes, bytes], due: Due) -> None:
    """Receive each record once, and release it until it is due."""
    received = 0
    while received < len(due):
        found = await consumer.poll()
        now_ms = time.time_ns() / 1e6
        for one in found:
            consumer.release(one, delay_ms=max(0, round(due[place(one)] - now_ms)))
        received += len(found)
        for error in (await consumer.commit()).values():
            if error is not None:
                raise error


def place(record: Record[bytes, bytes]) -> tuple[int, int]:
    return record.partition, record.offset


def rows() -> tuple[Row, ...]:
    return tuple(
        Row(
            key=f"due-{way}-{percentile}",
            title=f"late by, records {title}, {percentile}",
            unit="ms",
            target=target,
        )
        for way, title in WAYS.items()
        for percentile, target in (("p50", ""), ("p99", "≤ 50"))
    )


BENCHMARK = Benchmark(name="due-on-time", rows=rows(), run=run, rounds_max=1)
