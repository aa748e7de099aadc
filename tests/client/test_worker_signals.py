"""Several workers on one event loop, and the signals that stop them."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack

import pytest

from sharegroup.client.worker.signals import answering_signals
from tests.client.working import run


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first in first out", "nested"])
def test_the_handler_is_back_when_the_last_worker_has_ended(order: tuple[int, int]) -> None:
    """Otherwise Ctrl-C does nothing for the rest of the program."""
    before = signal.getsignal(signal.SIGINT)

    async def scenario() -> None:
        inside = signal.getsignal(signal.SIGINT)  # the event loop's runner has one of its own
        workers = [ExitStack(), ExitStack()]
        for worker in workers:
            worker.enter_context(answering_signals([signal.SIGINT], lambda: None))
        for at in order:
            assert signal.getsignal(signal.SIGINT) is not inside
            workers[at].close()
        assert signal.getsignal(signal.SIGINT) is inside

    run(scenario)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_stops_all_workers_that_run() -> None:
    async def scenario() -> None:
        heard: list[str] = []
        ended = asyncio.Event()

        def last() -> None:
            heard.append("last")
            ended.set()

        gone = ExitStack()
        gone.enter_context(answering_signals([signal.SIGTERM], lambda: heard.append("gone")))
        with (
            answering_signals([signal.SIGTERM], lambda: heard.append("first")),
            answering_signals([signal.SIGTERM], last),
        ):
            gone.close()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(ended.wait(), 120)
        assert heard == ["first", "last"]

    run(scenario)
