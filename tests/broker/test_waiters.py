"""Waiting fetches look again when they are woken, and never miss a wake."""

from __future__ import annotations

import asyncio
from uuid import UUID

from sharegroup.broker.waiters import Waiters
from sharegroup.model.ids import TopicIdPartition
from sharegroup.sim import SimulatedLoop

HERE, THERE = "one connection", "another"
ONE, OTHER = TopicIdPartition(UUID(int=1), 0), TopicIdPartition(UUID(int=1), 1)


def test_a_wait_ends_by_a_wake_or_at_its_time() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        waiters = Waiters()
        with waiters.watch([ONE], HERE) as waiter:
            loop.call_later(3, waiters.wake, OTHER)
            loop.call_later(5, waiters.wake, ONE)
            await waiter.wait(loop.time() + 60)
            assert loop.time() == 5
            await waiter.wait(loop.time() + 60)
            assert loop.time() == 65
            assert len(waiters) == 1
        waiters.wake(ONE)
        assert len(waiters) == 0
        assert not waiters._by_key
        assert not waiters._by_connection

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())


def test_a_wake_between_two_waits_is_not_lost() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        waiters = Waiters()
        with waiters.watch([ONE, OTHER, ONE], HERE) as waiter:
            waiters.wake(OTHER)
            await waiter.wait(loop.time() + 60)
            assert loop.time() == 0

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())


def test_a_connection_wakes_its_own_fetches_only() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        waiters = Waiters()
        with waiters.watch([], HERE) as waiter, waiters.watch([ONE], THERE) as other:
            loop.call_later(3, waiters.wake_connection, HERE)
            loop.call_later(5, waiters.wake_all)
            await waiter.wait(loop.time() + 60)
            assert loop.time() == 3
            await other.wait(loop.time() + 60)
            assert loop.time() == 5
            await waiter.wait(loop.time() + 60)
            assert loop.time() == 5

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())
