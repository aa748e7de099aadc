"""Ending a wait from outside."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client.errors import Wakeup
from sharegroup.client.wakeup import WakeupCall
from tests.client.working import run


async def ends_the_next_wait(call: WakeupCall) -> None:
    """And not the one after it."""
    with pytest.raises(Wakeup):
        async with call.answering():
            raise AssertionError("not reached")
    async with call.answering():
        await asyncio.sleep(0)


def test_a_wakeup_before_the_wait_is_kept_and_two_count_as_one() -> None:
    async def scenario() -> None:
        call = WakeupCall()
        call.ring()
        call.ring()
        await ends_the_next_wait(call)

    run(scenario)


def test_a_wakeup_ends_all_waits_and_a_second_one_is_harmless() -> None:
    async def scenario() -> None:
        call = WakeupCall()

        async def wait() -> None:
            async with call.answering():
                await asyncio.Event().wait()

        waits = [asyncio.create_task(wait()) for _ in range(2)]
        await asyncio.sleep(0)
        call.ring()
        assert [type(one) for one in await asyncio.gather(*waits, return_exceptions=True)] == [
            Wakeup,
            Wakeup,
        ]
        async with call.answering():
            await asyncio.sleep(0)

    run(scenario)


def test_a_wakeup_in_the_moment_of_the_answer_ends_the_next_wait() -> None:
    async def scenario() -> None:
        call, answer = WakeupCall(), asyncio.get_running_loop().create_future()

        async def wait() -> int:
            async with call.answering():
                return await answer

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        answer.set_result(7)
        call.ring()
        assert await waiting == 7
        await ends_the_next_wait(call)

    run(scenario)


def test_timeouts_and_cancellations_pass_through() -> None:
    async def scenario() -> None:
        call = WakeupCall()
        with pytest.raises(TimeoutError):
            async with call.answering(), asyncio.timeout(0):
                await asyncio.Event().wait()

        async def wait() -> None:
            async with call.answering():
                await asyncio.Event().wait()

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(scenario)
