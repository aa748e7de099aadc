"""How fast a record that one member releases or loses is delivered to another.

After RELEASE: two members pass one record to and fro. Each waits in ShareFetch requests (of 500 ms,
Java's default) while the other sends its ShareAcknowledge. The time runs from the sending of the
acknowledgement to the fetch response of the other member.

After a death: one member holds 16,000 records (4 partitions × 4,000, the highest lock limit) and
its connection is cut. The time runs until another member has acquired all of them.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.wire_member import ACCEPT, RELEASE, Held, WireMember, records
from tests.servers.admin import produce

ROUND_TRIPS = 3  # of one record: the delivery limit is 5
RECORDS = 10
PARTITIONS, LOCKS = 4, 4_000
FETCH_RECORDS = 2_000
WAIT_MS = 500
HELD_SECONDS = 30


class TooMany(Exception):
    """More than one record was delivered."""


def run(bench: Bench) -> dict[str, float]:
    delays = sorted(asyncio.run(released(bench)))
    return {
        "release-p50": delays[len(delays) // 2] * 1e3,
        "release-p99": delays[len(delays) * 99 // 100] * 1e3,
        "death": asyncio.run(after_death(bench)),
    }


async def released(bench: Bench) -> list[float]:
    """Seconds from each RELEASE to the redelivery."""
    topic, group = bench.new_topic(1), bench.new_group()
    giver = await WireMember.join(bench.bootstrap, group, topic)
    taker = await WireMember.join(bench.bootstrap, group, topic)
    delays = []
    for _ in range(RECORDS):
        waiting = asyncio.create_task(one_record(giver))
        await asyncio.to_thread(produce, bench.bootstrap, topic, [b"to and fro"])
        held = await waiting
        for _ in range(ROUND_TRIPS):
            waiting = asyncio.create_task(one_record(taker))
            await asyncio.sleep(0.005)  # the other member waits in a fetch by then
            start = time.perf_counter()
            await giver.acknowledge(held, RELEASE)
            held = await waiting
            delays.append(time.perf_counter() - start)
            giver, taker = taker, giver
        await giver.acknowledge(held, ACCEPT)
    giver.die()
    taker.die()
    return delays


async def one_record(member: WireMember) -> list[Held]:
    """Fetch until one record comes."""
    async with asyncio.timeout(HELD_SECONDS):
        while not (held := await member.fetch(1, wait_ms=WAIT_MS)):
            pass
    if records(held) != 1:
        raise TooMany(f"{held} instead of one record")
    return held


async def after_death(bench: Bench) -> float:
    """Seconds from the cut until the other member has acquired the last record."""
    topic, group = bench.loaded_topic(bench.scale.records(1_000_000)), bench.new_group()
    bench.admin.set_group(group, share_partition_max_record_locks=str(LOCKS))
    mortal = await WireMember.join(bench.bootstrap, group, topic)
    heir = await WireMember.join(bench.bootstrap, group, topic)
    held = await until(mortal, PARTITIONS * LOCKS, count=1)
    start = time.perf_counter()
    mortal.die()
    await until(heir, held, count=2)
    passed = time.perf_counter() - start
    heir.die()
    return passed


async def until(member: WireMember, wanted: int, *, count: int) -> int:
    """Fetch until `wanted` records with this delivery count are held; returns their number."""
    held = 0
    async with asyncio.timeout(HELD_SECONDS):
        while held < wanted:
            got = await member.fetch(FETCH_RECORDS, wait_ms=500)
            held += records(one for one in got if one.delivery_count == count)
    return held


BENCHMARK = Benchmark(
    name="redelivery",
    rows=(
        Row(key="release-p50", title="redelivery after RELEASE: p50", unit="ms"),
        Row(key="release-p99", title="redelivery after RELEASE: p99", unit="ms"),
        Row(key="death", title="16,000 redeliveries after a member dies", unit="s", target="< 1 s"),
    ),
    run=run,
)
