"""How late acquisition locks expire.

One member acquires 200 records in 200 requests and never acknowledges them. Another member fetches
again and again, and gets each record when its lock expires. The lateness of a record is the time
when the second member gets it, minus the end of its lock: the time of the first member's fetch
response plus the lock duration.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.wire_member import ACCEPT, WireMember
from tests.servers.admin import produce

RECORDS = 200
LOCK_MS = 2_000
BETWEEN_SECONDS = 0.004
PATIENCE_SECONDS = 30


def run(bench: Bench) -> dict[str, float]:
    late = sorted(asyncio.run(lateness(bench)))
    return {
        "expiry-p50": late[len(late) // 2] * 1e3,
        "expiry-p99": late[len(late) * 99 // 100] * 1e3,
    }


async def lateness(bench: Bench) -> list[float]:
    """Seconds of each record."""
    topic, group = bench.new_topic(1), bench.new_group()
    bench.admin.set_group(group, share_record_lock_duration_ms=str(LOCK_MS))
    holder = await WireMember.join(bench.bootstrap, group, topic)
    successor = await WireMember.join(bench.bootstrap, group, topic)
    produce(bench.bootstrap, topic, [b"held too long"] * RECORDS)
    ends: dict[int, float] = {}
    late: list[float] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(ends) < RECORDS:
            for one in await holder.fetch(1, wait_ms=500, exactly=True):
                ends[one.first] = time.perf_counter() + LOCK_MS / 1000
            await asyncio.sleep(BETWEEN_SECONDS)
        while len(late) < RECORDS:
            got = await successor.fetch(RECORDS, wait_ms=500)
            now = time.perf_counter()
            late += [now - ends[n] for one in got for n in range(one.first, one.last + 1)]
            await successor.acknowledge(got, ACCEPT)
    holder.die()
    successor.die()
    return late


BENCHMARK = Benchmark(
    name="lock-expiry",
    rows=(
        Row(key="expiry-p50", title="acquisition lock expires late: p50", unit="ms"),
        Row(
            key="expiry-p99",
            title="acquisition lock expires late: p99",
            unit="ms",
            target="< 100 ms",
        ),
    ),
    run=run,
)
