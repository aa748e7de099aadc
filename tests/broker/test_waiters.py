"""Waiting fetches look again when they are woken, and never miss a wake."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from random import Random
from uuid import UUID

import pytest

from sharegroup.broker.waiters import FetchWaiters, Waiter
from sharegroup.model.ids import TopicIdPartition
from sharegroup.sim import SimulatedLoop

HERE, THERE = "one connection", "another"
ONE, OTHER = TopicIdPartition(UUID(int=1), 0), TopicIdPartition(UUID(int=1), 1)


def test_a_wait_ends_by_a_wake_or_at_its_time() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        waiters = FetchWaiters()
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
        assert not waiters._lines
        assert not waiters._by_connection

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())


def test_a_wake_between_two_waits_is_not_lost() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        waiters = FetchWaiters()
        with waiters.watch([ONE, OTHER, ONE], HERE) as waiter:
            waiters.wake(OTHER)
            await waiter.wait(loop.time() + 60)
            assert loop.time() == 0

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())


def test_a_connection_wakes_its_own_fetches_only() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        waiters = FetchWaiters()
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


def looking(waiters: list[Waiter]) -> list[int]:
    """Which of them look again at ONE before anything else is said."""
    return [at for at, waiter in enumerate(waiters) if ONE in waiter.offers]


def test_an_offer_goes_to_one_of_each_group_and_on_in_line() -> None:
    waiters = FetchWaiters()
    plain = [waiters.watch([ONE], HERE) for _ in range(2)]
    group = [waiters.watch([ONE], HERE, "workers") for _ in range(3)]
    other = [waiters.watch([ONE], HERE, "others") for _ in range(3)]
    with ExitStack() as watching:
        for waiter in (*plain, *group, *other):
            watching.enter_context(waiter)
        waiters.offer(ONE)
        assert [each._woken for each in (*plain, *group, *other)] == (
            [True, True] + [True, False, False] * 2
        )
        group[0].pass_on(lambda key: True)
        assert looking(group) == [1]
        group[1].pass_on(lambda key: False)  # it took all
        assert looking(group) == []
        waiters.offer_to("workers", ONE)
        assert looking(group) == [2]  # who has waited longest since it was asked
        waiters.offer_to("workers", ONE)
        assert looking(group) == [0, 2]
        assert looking(other) == [0]
    assert not waiters._lines


@pytest.mark.parametrize("seed", range(200))
def test_an_offer_that_nobody_takes_reaches_everyone_in_line_and_ends(seed: int) -> None:
    """Several offers at once, and waiters that come, look, and leave without having looked."""
    random = Random(seed)
    waiters = FetchWaiters()
    waiting: list[Waiter] = []
    looks: dict[Waiter, int] = {}
    offers = last = 0

    def look(waiter: Waiter) -> None:
        looks[waiter] = waiters.changes
        waiter.pass_on(lambda key: True)

    for _ in range(60):
        woken = [waiter for waiter in waiting if waiter.offers]
        match random.choice(["come", "offer", "look", "leave"]):
            case "come":
                waiting.append(waiters.watch([ONE], HERE, "workers").__enter__())
                looks[waiting[-1]] = waiters.changes  # as a fetch does that begins to wait
            case "offer":
                waiters.offer(ONE)
                offers, last = offers + 1, waiters.changes
            case "look" if woken:
                look(random.choice(woken))
            case "leave" if waiting:
                waiting.pop(random.randrange(len(waiting))).__exit__(None, None, None)
    steps = 0
    while woken := [waiter for waiter in waiting if waiter.offers]:
        look(random.choice(woken))
        steps += 1
        assert steps <= offers * len(waiting)
    assert all(looks[waiter] >= last for waiter in waiting)


def test_a_thousand_in_line_cost_one_look_a_record() -> None:
    waiters = FetchWaiters()
    line = [waiters.watch([ONE], HERE, "workers").__enter__() for _ in range(1000)]
    for _ in range(3000):
        waiters.offer(ONE)
        (at,) = looking(line)
        line[at].pass_on(lambda key: False)
    assert {waiter.offered[ONE] for waiter in line} == set(range(2001, 3001))
