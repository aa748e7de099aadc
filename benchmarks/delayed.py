"""Records that rest: what 100,000 and 1,000,000 of them cost a group, in memory, at a restart, and
the drain of fresh records beside them.

Our client reads all records of a topic, 100 B in 4 partitions, and gives each back for an hour
(``release(record, delay_ms=…)``). Memory is what the server has more than before: the pauses, and
the state that was read on the way. The restart is after kill -9, from the start of the process
until the group's state tells of all records that rest. Then 300,000 fresh records come into the
same partitions, and Java's ShareConsumerPerformance drains them, three times; the median of the
rates is compared with that of a group in which nothing rests.

Apache Kafka lets no records rest. Three rounds at most: each gives back 1.1 M records.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Final

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup import Admin, ShareConsumer
from sharegroup.share.record_state import RecordState

RESTING: Final = (100_000, 1_000_000)
FRESH: Final = 300_000
DRAINS: Final = 3
RECORD_BYTES, PARTITIONS = 100, 4
PAUSE_MS: Final = 3_600_000
READY_SECONDS: Final = 300
MIB: Final = 1 << 20


def run(bench: Bench) -> dict[str, float]:
    """Measures our broker only."""
    if bench.server.name != "sharegroup":
        return {}
    bench.server.prepare()
    bench.server.start()
    fresh = bench.scale.records(FRESH)
    alone = bench.new_topic(PARTITIONS)
    free = drained(bench, alone, bench.new_group(), fresh)
    found: dict[str, float] = {}
    for resting in RESTING:
        found |= measured(bench, resting, fresh, free)
    return found


def measured(bench: Bench, resting: int, fresh: int, free: float) -> dict[str, float]:
    """The rows of so many records that rest; ``free`` is the rate where nothing rests."""
    records = bench.scale.records(resting)
    topic, group = bench.new_topic(PARTITIONS), bench.new_group()
    bench.tools.produce(topic, records, record_bytes=RECORD_BYTES)
    before = bench.server.usage().memory_bytes
    asyncio.run(give_back(bench.bootstrap, topic, group, records))
    memory = bench.server.usage().memory_bytes - before
    bench.server.kill()
    began = time.perf_counter()
    bench.server.start_and_probe()
    asyncio.run(until_known(bench.bootstrap, group, records))
    restart = time.perf_counter() - began
    beside = drained(bench, topic, group, fresh)
    bench.admin.delete_topic(topic)
    return {
        f"delayed-{resting}-memory": memory / MIB,
        f"delayed-{resting}-restart": restart,
        f"delayed-{resting}-share": beside / free,
    }


def drained(bench: Bench, topic: str, group: str, fresh: int) -> float:
    """Records per second, the median of three drains of fresh records."""
    rates: list[float] = []
    for _ in range(DRAINS):
        bench.tools.produce(topic, fresh, record_bytes=RECORD_BYTES)
        rates.append(bench.tools.share_drain(topic, group, fresh).records_per_second)
    return statistics.median(rates)


async def give_back(bootstrap: str, topic: str, group: str, records: int) -> None:
    """Release so many records for an hour, durably."""
    async with ShareConsumer(
        topic, group_id=group, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
    ) as consumer:
        released = 0
        while released < records:
            found = await consumer.poll()
            consumer.release(*found, delay_ms=PAUSE_MS)
            released += len(found)
            for error in (await consumer.commit()).values():
                if error is not None:
                    raise error


async def until_known(bootstrap: str, group: str, records: int) -> None:
    """Return when the broker tells of so many records that rest."""
    async with asyncio.timeout(READY_SECONDS), Admin(bootstrap) as admin:
        while await resting_in(admin, group) < records:
            pass


async def resting_in(admin: Admin, group: str) -> int:
    """How many records of the group rest. A broker that has not loaded a share partition since its
    start shows them as available: nobody had to know when they are due."""
    told = await admin.describe_record_states(group)
    free = (RecordState.AVAILABLE, RecordState.DELAYED)
    return sum(
        one.last - one.first + 1
        for partition in told.values()
        for one in partition.ranges
        if one.state in free and one.delivery_count
    )


def rows(kind: str, what: str) -> tuple[Row, ...]:
    """The rows of all numbers of records that rest; ``kind`` begins their keys."""
    return tuple(
        row for resting in RESTING for row in _rows(f"{kind}-{resting}", f"{resting:,} {what}")
    )


def _rows(key: str, title: str) -> tuple[Row, ...]:
    return (
        Row(key=f"{key}-memory", title=f"{title}: memory", unit="MiB"),
        Row(key=f"{key}-restart", title=f"{title}: start after kill -9", unit="s"),
        Row(
            key=f"{key}-share",
            title=f"{title}: drain of fresh records beside them ÷ without",
            unit="×",
            higher_is_better=True,
            target="≥ 0.9",
        ),
    )


BENCHMARK = Benchmark(
    name="delayed",
    rows=rows("delayed", "delayed records"),
    run=run,
    fresh_server=True,
    rounds_max=3,
)
