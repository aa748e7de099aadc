"""Small parts of the source's driver side, each by itself."""

from __future__ import annotations

import asyncio
from uuid import UUID

from sharegroup.model.errors import NetworkException
from sharegroup.spark.source.holding.record_sizes import RecordSizes
from sharegroup.spark.source.throttled_task import ThrottledTask
from sharegroup.wire.batch import encode_batch

SMALL, LARGE = UUID(int=1), UUID(int=2)


def test_occasional_work_is_done_once_at_a_time_and_not_too_often() -> None:
    async def run() -> int:
        calls = 0
        go_on = asyncio.Event()

        async def work() -> None:
            nonlocal calls
            calls += 1
            await go_on.wait()

        often = ThrottledTask(work, 0.0, "often")
        for _ in range(3):
            often.ask()
        await asyncio.sleep(0)
        assert calls == 1  # the first one is still at it
        go_on.set()
        await asyncio.sleep(0)
        often.ask()
        await asyncio.sleep(0)
        assert calls == 2
        rare = ThrottledTask(work, float("inf"), "rare")
        for _ in range(3):
            rare.ask()
            await asyncio.sleep(0)
        return calls

    assert asyncio.run(run()) == 3


def test_occasional_work_that_fails_is_done_again() -> None:
    async def run() -> int:
        calls = 0

        async def work() -> None:
            nonlocal calls
            calls += 1
            raise NetworkException("away")

        often = ThrottledTask(work, 0.0, "often")
        for _ in range(2):
            often.ask()
            await asyncio.sleep(0)
        return calls

    assert asyncio.run(run()) == 2


def test_bytes_are_turned_into_records_by_the_largest_that_were_seen() -> None:
    async def run() -> None:
        sizes = RecordSizes()
        assert not sizes.is_known
        sizes.saw(SMALL, b"")
        assert not sizes.is_known
        small = encode_batch([(None, b"x" * 10)] * 4, timestamp_ms=0)
        large = encode_batch([(None, b"x" * 10_000)], timestamp_ms=0)
        sizes.saw(SMALL, small + small)
        assert sizes.is_known
        assert sizes.records_in(len(small)) == 4
        sizes.saw(LARGE, large + small[:30])
        assert sizes.records_in(3 * len(large)) == 3
        assert sizes.records_in(1) == 1

    asyncio.run(run())
