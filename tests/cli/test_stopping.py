"""What a signal cancels, and what it does not."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from sharegroup.cli.outcome import ExitCode
from sharegroup.cli.stopping import Stopping


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


async def heard(stopping: Stopping) -> None:
    """Until the signal that was just sent has come through the loop."""
    await asyncio.sleep(0)
    for _ in range(1000):
        if stopping.asked():
            return
        await asyncio.sleep(0)
    raise AssertionError("no signal came")


async def forever(began: asyncio.Event) -> str:
    began.set()
    await asyncio.get_running_loop().create_future()
    return "never"


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)],
)
def test_the_first_signal_cancels_only_interruptible_work(
    number: signal.Signals, code: ExitCode
) -> None:
    async def command() -> None:
        with Stopping() as stopping:
            began = asyncio.Event()
            waiting = asyncio.ensure_future(began.wait())
            waiting.add_done_callback(lambda _: send(number))
            assert await stopping.unless_stopped(forever(began)) is None
            assert stopping.exit_code is code
            await asyncio.sleep(0)  # the task itself is not cancelled
            assert await stopping.unless_stopped(forever(began)) is None

    asyncio.run(command())


def test_work_that_ends_before_a_signal_returns_its_result() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    async def command() -> None:
        with Stopping() as stopping:
            assert await stopping.unless_stopped(answer()) == 42
            assert not stopping.asked()

    asyncio.run(command())


def test_a_signal_outside_takes_effect_at_the_next_work() -> None:
    async def command() -> None:
        with Stopping() as stopping:
            send(signal.SIGINT)
            await heard(stopping)
            assert await stopping.unless_stopped(forever(asyncio.Event())) is None

    asyncio.run(command())


def test_the_second_signal_ends_the_task() -> None:
    async def command() -> None:
        with Stopping() as stopping:
            send(signal.SIGINT)
            await heard(stopping)
            send(signal.SIGINT)
            await forever(asyncio.Event())

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(command())
