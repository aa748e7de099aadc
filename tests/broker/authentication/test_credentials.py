"""What a listener knows of its users, and does not tell strangers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sharegroup.broker.authentication.credentials import Credentials, Scram
from sharegroup.broker.authentication.password_checks import PasswordChecks
from sharegroup.model.limits import USERS_COMPARED_MAX
from sharegroup.sasl.password_hash import PasswordHash
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism, credential
from sharegroup.sasl.users_file import FileUsers, parse_users, user_lines

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def credentials(
    stored: Scram | None = None,
    file: FileUsers | None = None,
    jaas: Mapping[str, str] | None = None,
    secret: bytes = b"secret",
) -> Credentials:
    return Credentials(
        stored=lambda: stored or {},
        file=lambda: file or FileUsers(),
        jaas=lambda: jaas or {},
        secret=secret,
        entropy=os.urandom,
        checks=PasswordChecks(),
    )


def kept(salt: bytes, iterations: int) -> ScramCredential:
    return credential(SHA_256, b"salted", salt, iterations)


def test_an_unknown_user_has_always_the_same_salt() -> None:
    users = credentials()
    first = users.scram("nobody", SHA_256)
    assert first.salt == users.scram("nobody", SHA_256).salt
    assert first.salt != users.scram("nobody else", SHA_256).salt
    assert first.salt != users.scram("nobody", SHA_512).salt
    assert first.salt != credentials(secret=b"another").scram("nobody", SHA_256).salt
    assert len(users.scram("nobody", SHA_512).stored_key) == 64


def test_an_unknown_user_looks_like_the_others() -> None:
    stored = {
        ("a", SHA_256): kept(b"1c5i89hgoqe3qo5xrkdmtxzaua", 8192),  # by kafka-configs
        ("b", SHA_256): kept(b"1mx6hh2eyq8rz2jkqg7kfy1cqz", 8192),
        ("c", SHA_256): kept(bytes(64), 4096),
        ("d", SHA_512): kept(bytes(64), 16384),
    }
    found = credentials(stored).scram("nobody", SHA_256)
    assert (found.iterations, len(found.salt)) == (8192, 26)
    assert found.salt.isalnum()
    other = credentials(stored).scram("nobody", SHA_512)
    assert (other.iterations, len(other.salt)) == (16384, 64)


def test_stored_credentials_win_over_the_file() -> None:
    file = parse_users("\n".join(user_lines("a", "in file", bytes(48), 4096)), "users")
    own = kept(b"salt", 4096)
    assert credentials({("a", SHA_256): own}, file).scram("a", SHA_256) is own
    assert credentials({}, file).scram("a", SHA_256) is file.credentials["a", SHA_256]


def test_passwords() -> None:
    file = FileUsers({"a": PasswordHash.of("right", bytes(16))})

    async def check() -> None:
        users = credentials(file=file, jaas={"b": "other", "a": "second"})
        for user, password in (("a", "right"), ("a", "second"), ("b", "other")):
            assert await users.has_password(user, password, "host", bool)
        for user, password in (("a", "wrong"), ("b", "right"), ("c", "right"), ("b", "second")):
            assert not await users.has_password(user, password, "host", bool)
        assert not await credentials().has_password("a", "right", "host", bool)

    asyncio.run(check())


class CountedChecks(PasswordChecks):
    """Keeps what each hash that is computed costs."""

    def __init__(self) -> None:
        super().__init__()
        self.costs: list[tuple[int, int, int, int]] = []

    async def matches(
        self, kept: PasswordHash, password: str, host: str, left: Callable[[], bool]
    ) -> bool:
        self.costs.append((kept.n, kept.r, kept.p, len(kept.salt)))
        return await super().matches(kept, password, host, left)


def test_every_claim_costs_the_same_work() -> None:
    """So that the time of an answer does not tell which users there are."""

    async def check() -> None:
        checks = CountedChecks()
        kept = PasswordHash.of("right", bytes(16))
        users = Credentials(
            stored=dict,
            file=lambda: FileUsers({"file": kept}),
            jaas=lambda: {"jaas": "right"},
            secret=b"secret",
            entropy=os.urandom,
            checks=checks,
        )
        for user in ("file", "jaas", "nobody"):
            for password in ("right", "wrong"):
                await users.has_password(user, password, "host", bool)
                assert checks.costs == [(kept.n, kept.r, kept.p, 16)]
                checks.costs.clear()

    asyncio.run(check())


class CountedUsers(dict[tuple[str, ScramMechanism], ScramCredential]):
    """Counts how many are looked at."""

    looked_at = 0

    def get(self, *key: Any) -> Any:
        self.looked_at += 1
        return super().get(*key)

    def items(self) -> Any:
        for item in super().items():
            self.looked_at += 1
            yield item


@pytest.mark.parametrize("count", [USERS_COMPARED_MAX, 20 * USERS_COMPARED_MAX])
def test_a_user_of_scram_is_found_by_the_same_look_ups(count: int) -> None:
    """Whoever it is, and however many there are."""
    made = kept(bytes(16), 4096)
    names = [("stored", SHA_256), *((f"user{number}", SHA_256) for number in range(count))]
    for user in ("stored", "in file", "user7", "nobody"):
        stored = CountedUsers(dict.fromkeys(names, made))
        in_file = CountedUsers(dict.fromkeys([("in file", SHA_256), *names], made))
        found = credentials(stored, FileUsers(credentials=in_file)).scram(user, SHA_256)
        assert (found is made) == (user != "nobody")
        assert {stored.looked_at, in_file.looked_at} <= {1 + USERS_COMPARED_MAX}
