"""Tenants that take turns (``share.fairness=key``): how long one with 100 records waits beside one
with 1,000,000.

The large tenant's records lie in one partition, 100 B each. One consumer of ours reads and accepts
them, 100 at a time. Once the broker has found all of them (it looks ahead), the small tenant's 100
records are produced; the time is from the first one's send until the last one is received. The same
without the large tenant is what the small one waits alone.

Apache Kafka has no turns.
"""

from __future__ import annotations

import asyncio
import time
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


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    large = bench.scale.records(LARGE)
    alone = asyncio.run(waited(bench, 0))
    beside = asyncio.run(waited(bench, large))
    return {ALONE: alone * 1000, BESIDE: beside * 1000, SHARE: beside / alone}


async def waited(bench: Bench, large: int) -> float:
    """Seconds that the small tenant waits beside so many records of the large one."""
    topic, group = bench.new_topic(1), bench.new_group()
    bench.admin.set_group(group, share_fairness="key", share_auto_offset_reset="earliest")
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
                await producer.enqueue(topic, VALUE, key=b"small")
            await producer.flush()
            found = 0
            while found < SMALL:
                found += await accepted(consumer)
            return time.perf_counter() - began


async def accepted(consumer: ShareConsumer) -> int:
    """Accept what a poll brings; returns how many records are the small tenant's."""
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
    ),
    run=run,
)
