"""The rate of a group on virtual time: what goes out in which second, and after a crash."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.share.rate import BURST_MS
from sharegroup.sim import MemoryDisk
from tests.broker.by_hand import GROUP, Member, topic_with_records
from tests.sim.test_broker_in_virtual_time import simulate, start

PER_SECOND, RECORDS = 20, 100
BUCKET = PER_SECOND * BURST_MS // 1000


@pytest.mark.parametrize("order", [{}, {"share.fairness": "key"}])
def test_two_members_together_stay_below_the_rate_and_reach_it(order: dict[str, str]) -> None:
    """All records have one key, and lie in one batch."""
    rate = {"share.auto.offset.reset": "earliest", "share.rate.max.records": str(PER_SECOND)}

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, RECORDS)
        broker.parts.configs.set_group(GROUP, rate | order, validate_only=False)
        loop = asyncio.get_running_loop()
        got: list[tuple[float, int]] = []

        async def take(name: str) -> None:
            member = await Member.join(port, name)
            while sum(records for _, records in got) < RECORDS:
                ranges = await member.fetch(topic_id, wait_ms=1_000)
                got.append((loop.time(), sum(last - first + 1 for first, last, _ in ranges)))

        await asyncio.gather(take("first"), take("second"))
        began_s = got[0][0]
        for at, (since_s, _) in enumerate(got):
            for until_s, _ in got[at:]:
                records = sum(size for time_s, size in got[at:] if time_s <= until_s)
                # An answer takes some milliseconds of virtual time to arrive.
                assert records <= BUCKET + PER_SECOND * (until_s - since_s + 0.05)
        ended_s = next(at for at, size in reversed(got) if size)
        assert ended_s - began_s < RECORDS / PER_SECOND + 2 * BURST_MS / 1000
        await broker.close()

    simulate(scenario)


def test_a_power_failure_leaves_the_rate() -> None:
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.rate.max.records": "1",
        "share.rate.interval.ms": "10000",
    }

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, 3)
        broker.parts.configs.set_group(GROUP, settings, validate_only=False)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 0, 1)]
        assert await member.acknowledge(topic_id, 0, 0, kind=1) == 0
        assert await member.fetch(topic_id, wait_ms=5_000) == []
        disk.crash()

        again, port = await start(disk)
        again.parts.configs.set_group(GROUP, settings, validate_only=False)
        member = await Member.join(port, "second")
        loop = asyncio.get_running_loop()
        assert await member.fetch(topic_id) == [(1, 1, 1)]
        since_s = loop.time()
        assert await member.fetch(topic_id, wait_ms=60_000) == [(2, 2, 1)]
        assert 9.9 <= loop.time() - since_s <= 10.2
        await again.close()
        await broker.close()

    simulate(scenario)
