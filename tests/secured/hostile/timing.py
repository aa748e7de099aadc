"""How long a broker takes to refuse a wrong password, and an unknown user: interleaved tries, so
that what else the machine does hits both alike.

``python -m tests.secured.hostile.timing [TRIES]`` prints both medians, and by how much they would
differ by chance. That the work is the same is counted in
``tests/broker/authentication/test_refusals.py``: this is for what counts do not see.
"""

from __future__ import annotations

import random
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sharegroup.sasl.client import Login, PlainLogin
from sharegroup.sasl.scram_keys import ScramMechanism, credential, salt_password
from sharegroup.sasl.scram_messages import to_base64
from tests.secured.cells import USER, Credentials
from tests.secured.hostile.neighbour import Client
from tests.secured.hostile.peers import port_of
from tests.secured.hostile.target import Target
from tests.servers.process import HOST

TRIES: Final = 200
USERS: Final = 2_000
"""With many users a look through all of them would show."""

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


def with_many_users(path: Path) -> None:
    """SCRAM users whose salted password is nobody's."""
    hashing = ScramMechanism.SHA_256
    salted = salt_password(hashing, "some password", bytes(16), 4096)
    kept = credential(hashing, salted, bytes(16), 4096)
    value = "$".join(map(to_base64, (kept.salt, kept.stored_key, kept.server_key)))
    names = (USER, *(f"somebody{number}" for number in range(USERS)))
    with path.open("a") as file:
        file.writelines(f"{user}:SCRAM-SHA-256$4096${value}\n" for user in names)


def rows(folder: Path, tries: int) -> Iterator[str]:
    """The times of each mechanism, by requests and by tokens without a header."""
    target = Target(folder, Credentials(folder), "connection.failed.authentication.delay.ms=0")
    with_many_users(target.users_file)
    mechanisms: dict[str, NewLogin] = {"PLAIN": plain, "SCRAM-SHA-256": scram}
    with target:
        address = HOST, port_of(target.at("SASL_PLAINTEXT"))
        for mechanism, new in mechanisms.items():
            for by_tokens in (False, True):
                measured(address, new, min(tries, 10), by_tokens=by_tokens)
                times = measured(address, new, tries, by_tokens=by_tokens)
                yield f"{mechanism}{' by tokens' if by_tokens else ''}: {times}"


def main() -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(Path(folder), int(sys.argv[1]) if sys.argv[1:] else TRIES):
            sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
