"""Open connections of a user that is deleted."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sharegroup.client import Admin
from sharegroup.sasl.client import Login, PlainLogin, ScramLogin
from sharegroup.sasl.scram_keys import ScramMechanism
from sharegroup.sasl.users_file import user_lines
from tests.broker.authentication.raw_client import RawClient, raw_client
from tests.broker.authentication.secured import HOST, secured

SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512"
WORDS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def scram(user: str, mechanism: ScramMechanism = ScramMechanism.SHA_512) -> ScramLogin:
    return ScramLogin(mechanism, user, "secret", "nonce-of-the-client")


async def logged_in(stack: AsyncExitStack, port: int, login: Login) -> RawClient:
    client = await stack.enter_async_context(raw_client(port))
    await client.log_in_by_tokens(login)
    await client.metadata()
    return client


def test_connections_of_a_deleted_user_are_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that came in by what is deleted, and no others; a new password closes none."""

    async def main() -> None:
        async with (
            asyncio.timeout(120),
            AsyncExitStack() as stack,
            secured(tmp_path, "SASL_PLAINTEXT", SCRAM) as (_, plaintext, port),
            Admin(f"{HOST}:{plaintext}") as admin,
        ):
            for name in ("worker", "other"):
                await admin.upsert_scram_user(name, "secret", salt=b"salt", mechanisms=WORDS)
            other = await logged_in(stack, port, scram("other"))
            first = await logged_in(stack, port, scram("worker", ScramMechanism.SHA_256))
            second, third = [await logged_in(stack, port, scram("worker")) for _ in range(2)]
            await admin.upsert_scram_user("worker", "new", salt=b"tlas", mechanisms=WORDS)
            for client in (first, second, third, other):
                assert (await client.metadata()).cluster_id
            await admin.delete_scram_user("worker", "SCRAM-SHA-256")
            assert await first.is_closed()
            assert (await second.metadata()).cluster_id
            await admin.delete_scram_user("worker")
            assert await second.is_closed()
            assert await third.is_closed()
            assert (await other.metadata()).cluster_id

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert "closed 2 connections of deleted users: User:worker" in caplog.text


def test_who_deletes_itself_hears_that_it_is_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(120),
            secured(tmp_path, "SASL_PLAINTEXT", SCRAM) as (_, plaintext, port),
            Admin(f"{HOST}:{plaintext}") as admin,
        ):
            await admin.upsert_scram_user("worker", "secret", salt=b"salt", mechanisms=WORDS)
            security = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "worker",
                "sasl.password": "secret",
            }
            async with Admin(f"{HOST}:{port}", security=security) as itself:
                await itself.delete_scram_user("worker")
            assert await admin.describe_scram_users() == []

    asyncio.run(main())


def test_a_user_that_is_deleted_during_its_login_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(120),
            secured(tmp_path, "SASL_PLAINTEXT", SCRAM) as (_, plaintext, port),
            Admin(f"{HOST}:{plaintext}") as admin,
            raw_client(port) as client,
        ):
            await admin.upsert_scram_user("worker", "secret", salt=b"salt", mechanisms=WORDS)
            login = scram("worker")
            await client.handshake(login.mechanism)
            challenge = await client.authenticate(login.first())
            await admin.delete_scram_user("worker")
            answer = await client.authenticate(login.next(bytes(challenge.auth_bytes)))
            assert answer.error_code == 58
            assert await client.is_closed()

    asyncio.run(main())


def test_a_user_that_leaves_the_file_is_gone_at_the_next_reading(tmp_path: Path) -> None:
    file = tmp_path / "users"
    alice, bob = [user_lines(name, "secret", bytes(range(64)), 4096) for name in ("alice", "bob")]
    file.write_text("\n".join([*alice, *bob, ""]))
    options = ("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", f"sasl.users.file={file}")

    async def main() -> None:
        async with (
            asyncio.timeout(120),
            AsyncExitStack() as stack,
            secured(tmp_path, "SASL_PLAINTEXT", *options) as (broker, _, port),
        ):
            left = await logged_in(stack, port, PlainLogin("bob", "secret"))
            gone = [
                await logged_in(stack, port, PlainLogin("alice", "secret")),
                await logged_in(stack, port, scram("alice")),
            ]
            file.write_text("\n".join([*bob, ""]))
            broker.security.read_again()
            for client in gone:
                assert await client.is_closed()
            assert (await left.metadata()).cluster_id

    asyncio.run(main())
