"""One look for all who watch."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from sharegroup.console import watches as module
from sharegroup.console.watches import Seats, TooManyViewers, Watches
from sharegroup.model.errors import NetworkException, SharegroupError


def test_all_viewers_share_a_look_and_none_is_taken_without_them() -> None:
    async def scenario() -> None:
        looks = 0

        async def ask() -> dict[str, int]:
            nonlocal looks
            looks += 1
            return {"looks": looks}

        watches = Watches(Seats())
        async with (
            aclosing(watches.views("a", ask)) as one,
            aclosing(watches.views("a", ask)) as two,
        ):
            assert await anext(one) == await anext(two) == b'{"looks": 1}'
        assert looks == 1
        async with asyncio.timeout(60):  # nobody looks any more: the task was told to end
            left = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*left, return_exceptions=True)

    asyncio.run(scenario())


def test_a_look_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def refused() -> None:
            raise SharegroupError("the broker is away")

        async def wrong() -> None:
            raise ZeroDivisionError

        watches = Watches(Seats())
        async with aclosing(watches.views("a", refused)) as views:
            assert await anext(views) == b'{"error": "the broker is away"}'
        async with aclosing(watches.views("b", wrong)) as views:
            assert b"its log says how" in await anext(views)
        assert "ZeroDivisionError" in caplog.text

    asyncio.run(scenario())


def test_a_broker_that_is_away_is_not_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a look waits for it is no work of the broker: the next one need not wait longer."""
    monkeypatch.setattr(module, "INTERVAL_S", 0)
    monkeypatch.setattr(module, "SHARE_MAX", 1e-12)

    async def scenario() -> None:
        looks = 0

        async def away() -> None:
            nonlocal looks
            looks += 1
            raise NetworkException(f"away {looks}")

        watches = Watches(Seats())
        async with asyncio.timeout(60), aclosing(watches.views("a", away)) as views:
            assert b"away 1" in await anext(views)
            assert b"away" in await anext(views)

    asyncio.run(scenario())


def test_so_many_may_watch_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VIEWERS_MAX", 2)

    async def scenario() -> None:
        async def ask() -> int:
            return 1

        watches = Watches(Seats())
        async with (
            aclosing(watches.views("a", ask)) as one,
            aclosing(watches.views("b", ask)) as two,
        ):
            await anext(one)
            await anext(two)
            with pytest.raises(TooManyViewers):
                await anext(watches.views("a", ask))
        async with aclosing(watches.views("a", ask)) as again:
            assert await anext(again) == b"1"

    asyncio.run(scenario())


def test_the_end_of_the_console_ends_all_views() -> None:
    async def scenario() -> None:
        async def ask() -> int:
            return 1

        watches = Watches(Seats())
        async with aclosing(watches.views("a", ask)) as views:
            await anext(views)
            ending = asyncio.create_task(watches.close())
            with pytest.raises(StopAsyncIteration):
                await anext(views)
            await ending

    asyncio.run(scenario())
