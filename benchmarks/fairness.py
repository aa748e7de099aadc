"""Tenants that take turns (``share.fairness=key``) and urgent records (``share.priority.header``):
how long 100 records wait beside 1,000,000 others.

The others lie in one partition, 100 B each. One consumer of ours reads and accepts them, 100 at a
time. Once the broker has found all of them (it looks ahead), the 100 records of another tenant, or
of a higher priority, are produced; the time is from the first one's send until the last one is
received. The same without the others is what the 100 records wait alone.

Apache Kafka has neither.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup import Admin, Producer, ShareConsumer
from sharegroup.share.record_state import RecordState

LARGE: Final = 1_000_000
SMALL: Final = 100
AT_ONCE: Final = 100
VALUE: Final = bytes(100)
READY_SECONDS: Final = 300
ALONE, BESIDE, SHARE = "fairness-alone", "fairness-beside", "fairness-share"
URGENT_ALONE, URGENT_BESIDE = "priority-alone", "priority-beside"
URGENT_SHARE = "priority-share"
TURNS: Final = {"share_fairness": "key"}
PRIORITIES: Final = {"share_priority_header": "urgency"}
URGENT: Final = [("urgency", b"9")]


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    large = bench.scale.records(LARGE)
    alone = asyncio.run(waited(bench, 0, TURNS))
    beside = asyncio.run(waited(bench, large, TURNS))
    urgent_alone = asyncio.run(waited(bench, 0, PRIORITIES))
    urgent_beside = asyncio.run(waited(bench, large, PRIORITIES))
    return {
        ALONE: alone * 1000,
        BESIDE: beside * 1000,
        SHARE: beside / alone,
        URGENT_ALONE: urgent_alone * 1000,
        URGENT_BESIDE: urgent_beside * 1000,
        URGENT_SHARE: urgent_beside / urgent_alone,
    }


async def waited(bench: Bench, large: int, settings: Mapping[str, str]) -> float:
    """Seconds that the 100 records wait beside so many others, in a group with these settings."""
    topic, group = bench.new_topic(1), bench.new_group()
    bench.admin.set_group(group, share_auto_offset_reset="earliest", **settings)
    async with Producer(bench.bootstrap) as producer:
        for _ in range(large):
            await producer.enqueue(topic, VALUE, key=b"large")
        await producer.send(topic, VALUE, key=b"large")
        async with ShareConsumer(
            topic,
            group_id=group,
            bootstrap_servers=bench.bootstrap,
            acknowledgement_mode="explicit",
            acquire_mode="record_limit",
            max_poll_records=AT_ONCE,
        ) as consumer:
            await accepted(consumer)
            await until_found(bench.bootstrap, group, large)
            began = time.perf_counter()
            for _ in range(SMALL):
                await producer.enqueue(topic, VALUE, key=b"small", headers=URGENT)
            await producer.flush()
            found = 0
            while found < SMALL:
                found += await accepted(consumer)
            return time.perf_counter() - began


async def accepted(consumer: ShareConsumer) -> int:
    """Accept what a poll brings; returns how many are of the 100 records."""
    records = await consumer.poll()
    consumer.accept(*records)
    await consumer.commit()
    return sum(one.key == b"small" for one in records)


async def until_found(bootstrap: str, group: str, records: int) -> None:
    """Return when the broker has found so many records, but for those accepted meanwhile."""
    async with asyncio.timeout(READY_SECONDS), Admin(bootstrap) as admin:
        while await waiting_in(admin, group) < records - AT_ONCE:
            pass


async def waiting_in(admin: Admin, group: str) -> int:
    """How many records in the group's windows wait."""
    told = await admin.describe_record_states(group)
    return sum(
        one.last - one.first + 1
        for partition in told.values()
        for one in partition.ranges
        if one.state is RecordState.AVAILABLE
    )


BENCHMARK = Benchmark(
    name="fairness",
    rows=(
        Row(key=ALONE, title="100 records of one tenant, alone", unit="ms"),
        Row(key=BESIDE, title="the same beside 1,000,000 of another, in turns", unit="ms"),
        Row(key=SHARE, title="waiting beside ÷ alone", unit="×", target="≤ 2"),
        Row(key=URGENT_ALONE, title="100 urgent records, alone", unit="ms"),
        Row(key=URGENT_BESIDE, title="the same beside 1,000,000 others, first", unit="ms"),
        Row(key=URGENT_SHARE, title="waiting beside ÷ alone, urgent", unit="×", target="≤ 2"),
    ),
    run=run,
)
