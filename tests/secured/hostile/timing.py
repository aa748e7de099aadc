"""How long a broker takes to refuse a wrong password, and an unknown user: interleaved tries, so
that what else the machine does hits both alike."""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from sharegroup.sasl.client import Login, PlainLogin
from tests.secured.cells import USER
from tests.secured.hostile.neighbour import Client

NewLogin = Callable[[str], Login]


def plain(user: str) -> Login:
    """With a wrong password."""
    return PlainLogin(user, "wrong")


class Guess:
    """SCRAM with a proof of nothing: its own work is not measured."""

    mechanism = "SCRAM-SHA-256"
    done = False
    refusal: str | None = None

    def __init__(self, user: str) -> None:
        self._first = f"n,,n={user},r={secrets.token_hex(12)}"

    def first(self) -> bytes:
        """As each client's."""
        return self._first.encode()

    def next(self, message: bytes) -> bytes:
        """As long as a right one."""
        nonce = message.partition(b",")[0]
        return b"c=biws," + nonce + b",p=" + b"A" * 43 + b"="


def scram(user: str) -> Login:
    """With a wrong password."""
    return Guess(user)


@dataclass(frozen=True)
class Times:
    """Milliseconds of each try."""

    wrong_password: list[float]
    unknown_user: list[float]

    @property
    def difference_ms(self) -> float:
        """Of the medians."""
        return statistics.median(self.unknown_user) - statistics.median(self.wrong_password)

    @property
    def by_chance_ms(self) -> float:
        """How much the medians of two halves of the same tries differ: 99 of 100 shuffles less."""
        both = self.wrong_password + self.unknown_user
        shuffling = random.Random(1)
        differences = []
        for _ in range(1_000):
            shuffling.shuffle(both)
            half = len(both) // 2
            one, other = statistics.median(both[:half]), statistics.median(both[half:])
            differences.append(abs(one - other))
        return sorted(differences)[989]

    def __str__(self) -> str:
        return (
            f"wrong password {statistics.median(self.wrong_password):.3f} ms, unknown user "
            f"{statistics.median(self.unknown_user):.3f} ms, difference {self.difference_ms:+.3f} "
            f"ms (by chance up to {self.by_chance_ms:.3f} ms)"
        )


def measured(
    address: tuple[str, int], new: NewLogin, tries: int, *, by_tokens: bool = False
) -> Times:
    """Of a broker whose answers are not delayed. ``by_tokens`` are without a header."""
    found: dict[bool, list[float]] = {False: [], True: []}
    order = random.Random(2)
    for number in range(tries):
        pair = [False, True]
        order.shuffle(pair)
        for unknown in pair:
            name = f"user{number % 10:x}" if unknown else USER
            found[unknown].append(_one(address, new(name), by_tokens))
    return Times(found[False], found[True])


def _one(address: tuple[str, int], login: Login, by_tokens: bool) -> float:
    client = Client(address)
    try:
        begun = time.perf_counter()
        try:
            (client.login_by_tokens if by_tokens else client.login)(login)
        except PermissionError:
            return 1000 * (time.perf_counter() - begun)
    finally:
        client.close()
    raise AssertionError("a wrong password was taken")
