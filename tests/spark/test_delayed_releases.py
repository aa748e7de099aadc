"""Delayed releases go on after one that failed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sharegroup.model.errors import NetworkException
from sharegroup.spark.source.holding.acknowledging import Acknowledging
from sharegroup.spark.source.holding.acquiring import Acquirer
from sharegroup.spark.source.holding.ledger import Ledger
from sharegroup.spark.source.settling.delayed_releases import HoldKeeper


class TwoReleases(Ledger):
    """Two records whose time has come."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 2

    def next_due_ms(self) -> int | None:
        return 0 if self.waiting else None


class BrokenOnce(Acknowledging):
    """The broker cannot be reached at the first release."""

    def __init__(self, ledger: TwoReleases) -> None:
        self.releases = ledger
        self.done = asyncio.Event()

    async def release_due(self, now_ms: int | None = None) -> None:
        self.releases.waiting -= 1
        if self.releases.waiting:
            raise NetworkException
        self.done.set()


class Caught(Acquirer):
    """No fetch is under way."""

    def __init__(self) -> None:
        self.times = 0

    async def catch_up(self) -> None:
        self.times += 1


def test_a_release_that_fails_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "sharegroup.spark")

    async def scenario() -> None:
        ledger = TwoReleases()
        acknowledging = BrokenOnce(ledger)
        acquirer = Caught()
        keeper = HoldKeeper(ledger, acquirer, acknowledging, asyncio.Lock())
        keeper.look()
        async with asyncio.timeout(120):
            await acknowledging.done.wait()
        keeper.stop()
        assert acquirer.times == 2  # first of all, each time

    asyncio.run(scenario())
    [said] = caplog.messages
    assert said.startswith("delayed records could not be released this time: ")
