"""Who guesses passwords is slowed down, and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.broker.authentication.guessing import FORGOTTEN_MS, ClientLeft, Guessing
from sharegroup.broker.authentication.password_checks import PasswordChecks
from sharegroup.model.limits import (
    CLAIMS_AT_ONCE_MAX,
    CLAIMS_FOLLOWED_MAX,
    FAILURE_DELAY_DOUBLINGS_MAX,
    PASSWORD_CHECKS_MAX,
)
from sharegroup.sasl.password_hash import PasswordHash


class Clock:
    """Told what time it is."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def stays() -> bool:
    return False


def has_left() -> bool:
    return True


def guessing(clock: Clock | None = None, first_ms: int = 100) -> Guessing:
    return Guessing(clock or Clock(), lambda: first_ms)


def test_failures_are_answered_later_and_later() -> None:
    clock = Clock()
    found = guessing(clock)
    delays = [found.failed("a", "alice") for _ in range(8)]
    assert delays == [100, 200, 400, 800, 1600, 3200, 3200, 3200]
    assert max(delays) == 100 << FAILURE_DELAY_DOUBLINGS_MAX
    assert found.failed("b", "alice") == 100
    assert found.failed("a", "bob") == 100
    clock.now_ms = FORGOTTEN_MS + 1
    assert found.failed("a", "alice") == 100


def test_ones_own_success_makes_nothing_of_guesses_about_others() -> None:
    found = guessing()
    for _ in range(3):
        found.failed("a", "alice")
        found.succeeded("a", "mallory")
    assert found.failed("a", "alice") == 800
    found.succeeded("a", "alice")
    assert found.failed("a", "alice") == 100


def test_the_memory_of_guesses_is_bounded() -> None:
    found = guessing()
    found.failed("a", "alice")
    for number in range(CLAIMS_FOLLOWED_MAX):
        found.failed("a", f"user {number}" + "x" * 10_000)
    assert len(found) == CLAIMS_FOLLOWED_MAX
    assert found.failed("a", "alice") == 100  # forgotten, for the others
    for number in range(CLAIMS_FOLLOWED_MAX):
        found.succeeded("b", f"user {number}")
    assert len(found) <= CLAIMS_FOLLOWED_MAX


async def looked_at(found: Guessing, host: str, user: str, seen: list[str]) -> None:
    async with found.turn(host, user, stays):
        seen.append(f"{user}@{host}")
        await asyncio.sleep(0)
        found.failed(host, user)


def test_parallel_guesses_are_looked_at_one_after_the_other() -> None:
    async def scenario() -> None:
        found, seen = guessing(first_ms=3_600_000), list[str]()
        guesses = [asyncio.create_task(looked_at(found, "a", "alice", seen)) for _ in range(50)]
        others = [("a", "bob"), ("b", "alice")]
        await asyncio.gather(*(looked_at(found, *other, seen) for other in others))
        assert sorted(seen) == sorted(["alice@a"] * CLAIMS_AT_ONCE_MAX + ["bob@a", "alice@b"])
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)

    asyncio.run(scenario())


def test_a_claim_whose_client_has_left_is_not_looked_at() -> None:
    async def scenario() -> None:
        found = guessing()
        with pytest.raises(ClientLeft):
            async with found.turn("a", "alice", has_left):
                pass
        with pytest.raises(ClientLeft):
            await PasswordChecks().matches(PasswordHash.of("x", bytes(16)), "x", "a", has_left)
        assert len(found) == 0

    asyncio.run(scenario())


def test_addresses_take_turns_in_having_passwords_checked() -> None:
    kept = PasswordHash(2, 1, 1, b"salt", bytes(32))  # a cheap one

    async def scenario() -> None:
        checks, begun = PasswordChecks(), list[str]()

        async def check(host: str) -> None:
            def begins() -> bool:
                begun.append(host)
                return False  # it has not left

            await checks.matches(kept, "x", host, begins)

        flood = [asyncio.create_task(check("attacker")) for _ in range(100)]
        await asyncio.sleep(0)
        await check("somebody")
        assert begun.index("somebody") <= 5 * PASSWORD_CHECKS_MAX
        await asyncio.gather(*flood)
        await check("somebody")

    asyncio.run(scenario())
