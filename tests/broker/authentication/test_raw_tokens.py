"""Tokens without a header, after SaslHandshake version 0: all that holds for an exchange by
requests holds for them. tests/differential/test_raw_tokens.py holds each conversation beside Apache
Kafka."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.connection import BrokerConnection
from sharegroup.broker.server import Broker
from sharegroup.model.limits import FIRST_REQUEST_BYTES_MAX
from sharegroup.sasl.client import PlainLogin
from sharegroup.wire import apis
from sharegroup.wire.framing import bare_frame, request_frame
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.authentication.raw_client import RawClient, raw_client
from tests.broker.authentication.secured import plain_users, secured
from tests.broker.share_wire import until
from tests.secured.cells import AUDIENCE, FILE_USER, ISSUER, PASSWORD, Credentials
from tests.secured.raw_tokens import AGAIN, CONVERSATIONS, MECHANISMS, Account, seen

Work = Callable[[Broker, int, Account], Coroutine[Any, Any, None]]

FAILED = "authentication_failures"
AT_ONCE = "connection.failed.authentication.delay.ms=0"
OFFERED = f"handshake 0 {sorted(MECHANISMS)}"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Credentials]:
    return Credentials(tmp_path_factory.mktemp("credentials"))


def with_broker(folder: Path, credentials: Credentials, work: Work, *options: str) -> None:
    async def main() -> None:
        options_ = (
            AT_ONCE,
            f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
            f"sasl.users.file={credentials.users_file}",
            f"sasl.oauthbearer.jwks.endpoint.url={credentials.jwks_file.as_uri()}",
            f"sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"sasl.oauthbearer.expected.issuer={ISSUER}",
            *options,
        )
        account = Account(FILE_USER, PASSWORD, credentials.token())
        async with (
            asyncio.timeout(120),
            secured(folder, "SASL_PLAINTEXT", *options_) as (broker, _, port),
        ):
            await work(broker, port, account)

    asyncio.run(main())


def counted(broker: Broker, name: str, label: str) -> float:
    return broker.parts.counters.statistics().get((name, label), 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism(tmp_path: Path, credentials: Credentials, mechanism: str) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        async with raw_client(port) as client:
            await client.log_in_by_tokens(account.login(mechanism))
            await client.metadata()
            (view,) = broker.connections.views()
            known = "alice" if mechanism == "OAUTHBEARER" else FILE_USER
            assert view.principal == f"User:{known}"
            assert broker.connections.unauthenticated == 0
            assert counted(broker, "authentications", mechanism) == 1

    with_broker(tmp_path, credentials, work)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_wrong_is_counted_logged_and_closed_without_a_word(
    tmp_path: Path, credentials: Credentials, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        found = await seen(f"wrong {mechanism}", port, account)
        assert found[-1] == "closed"
        assert counted(broker, FAILED, mechanism) == 1
        await until(lambda: not broker.connections.unauthenticated)

    with_broker(tmp_path, credentials, work)
    assert f"did not authenticate to the listener SASL_PLAINTEXT ({mechanism}): " in caplog.text


@pytest.mark.parametrize("version", [0, 1])
def test_wrong_passwords_slow_the_next_guess_down(
    tmp_path: Path, credentials: Credentials, version: int
) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        async with raw_client(port) as client:
            await client.handshake("PLAIN", version)
            token = account.login("PLAIN", wrong=True).first()
            if version:
                assert (await client.authenticate(token)).error_code == 58
            else:
                client.send_token(token)
            assert await client.is_closed()
        assert broker.security.guessing.failed("127.0.0.1", FILE_USER) == 2

    with_broker(tmp_path, credentials, work, "connection.failed.authentication.delay.ms=1")


CLOSED = sorted(
    name
    for name in CONVERSATIONS
    if "instead" in name
    or name.startswith(("a second handshake", "an empty", "a token of another"))
)


@pytest.mark.parametrize("name", CLOSED)
def test_another_frame_than_the_mechanisms_token_is_a_failure(
    tmp_path: Path, credentials: Credentials, name: str
) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        assert await seen(name, port, account) == [OFFERED, "closed"]
        mechanism = "SCRAM-SHA-256" if "SCRAM" in name else "PLAIN"
        assert counted(broker, FAILED, mechanism) == 1
        assert not counted(broker, "malformed_requests", "")

    with_broker(tmp_path, credentials, work)


def test_the_first_request_right_behind_the_last_token(
    tmp_path: Path, credentials: Credentials
) -> None:
    """In one packet; and the request is longer than a token may be."""
    topics = [MetadataRequestTopic(name="x" * 2000)]
    request = request_frame(apis.METADATA, 12, 7, "raw", MetadataRequest(topics))

    async def work(broker: Broker, port: int, account: Account) -> None:
        handshake = request_frame(apis.SASL_HANDSHAKE, 0, 6, "raw", SaslHandshakeRequest("PLAIN"))
        token = bare_frame(account.login("PLAIN").first())
        async with raw_client(port) as client:
            client.writer.write(b"".join((*handshake, token, *request)))
            assert not (await client.receive(apis.SASL_HANDSHAKE, 0)).error_code
            assert await client.receive_token() == b""
            assert len((await client.receive(apis.METADATA, 12)).topics) == 1

    with_broker(tmp_path, credentials, work, "sasl.server.max.receive.size=1000")


def has_moved(connection: BrokerConnection, before: int) -> bool:
    return connection.moved_bytes > before


def test_tokens_that_come_byte_by_byte(tmp_path: Path, credentials: Credentials) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        async with raw_client(port) as client:
            await client.handshake("PLAIN", version=0)
            (connection,) = broker.connections.all()
            for byte in bare_frame(account.login("PLAIN").first()):
                moved = connection.moved_bytes
                client.writer.write(bytes([byte]))
                await until(partial(has_moved, connection, moved))
            assert await client.receive_token() == b""
            assert (await client.metadata()).cluster_id

    with_broker(tmp_path, credentials, work)


def test_the_longest_token(tmp_path: Path, credentials: Credentials) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        for size, failures, malformed in ((1000, 1, 0), (1001, 1, 1)):
            async with raw_client(port) as client:
                await client.handshake("PLAIN", version=0)
                client.send_token(bytes(size))
                assert await client.is_closed()
            assert counted(broker, FAILED, "PLAIN") == failures
            assert counted(broker, "malformed_requests", "") == malformed

    with_broker(tmp_path, credentials, work, "sasl.server.max.receive.size=1000")


def test_a_token_is_no_request_whose_length_an_api_limits(
    tmp_path: Path, credentials: Credentials
) -> None:
    """It begins as a request of an API would that takes short ones, and comes in parts."""
    size = FIRST_REQUEST_BYTES_MAX + 1000

    async def work(broker: Broker, port: int, account: Account) -> None:
        async with raw_client(port) as client:
            await client.handshake("PLAIN", version=0)
            client.writer.write(size.to_bytes(4, "big") + b"\0\x12\0\3" + bytes(1000))
            await until(lambda: broker.connections.request_bytes > size)
            client.writer.write(bytes(size - 1004))
            assert await client.is_closed()
        assert counted(broker, FAILED, "PLAIN") == 1
        assert not counted(broker, "malformed_requests", "")

    with_broker(tmp_path, credentials, work, f"sasl.server.max.receive.size={size}")


def test_a_stranger_who_does_not_send_its_token_in_time(
    tmp_path: Path, credentials: Credentials
) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        async with raw_client(port) as client:
            await client.handshake("SCRAM-SHA-256", version=0)
            client.send_token(account.login("SCRAM-SHA-256").first())
            assert await client.receive_token()
            assert await client.is_closed()
        assert counted(broker, "authentications_late", "") == 1

    with_broker(tmp_path, credentials, work, "connections.authentication.timeout.ms=100")


REAUTH = "connections.max.reauth.ms=3600000"


@pytest.mark.parametrize("name", sorted(name for name in CONVERSATIONS if AGAIN in name))
def test_authenticating_again(tmp_path: Path, credentials: Credentials, name: str) -> None:
    fails = any(words in name for words in ("wrong", "another", "longer"))

    async def work(broker: Broker, port: int, account: Account) -> None:
        assert (await seen(name, port, account))[-1] == ("closed" if fails else "open")

    with_broker(tmp_path, credentials, work, REAUTH)


def test_another_user_when_authenticating_again(tmp_path: Path, credentials: Credentials) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        async with raw_client(port) as client:
            await client.log_in_by_tokens(PlainLogin("bob", "secret"))
            await client.handshake("PLAIN", version=0)
            client.send_token(PlainLogin("eve", "secret").first())
            assert await client.is_closed()
        assert counted(broker, FAILED, "PLAIN") == 1

    users = plain_users("SASL_PLAINTEXT", {"bob": "secret", "eve": "secret"})
    with_broker(tmp_path, credentials, work, users, REAUTH)


def test_a_session_ends_though_the_client_was_not_told_when(
    tmp_path: Path, credentials: Credentials
) -> None:
    async def work(broker: Broker, port: int, account: Account) -> None:
        async with raw_client(port) as client:
            await client.log_in_by_tokens(account.login("PLAIN"))
            with pytest.raises(asyncio.IncompleteReadError):
                await metadata_for_ever(client)
        assert counted(broker, "authentications_expired", "") == 1

    with_broker(tmp_path, credentials, work, "connections.max.reauth.ms=1")


async def metadata_for_ever(client: RawClient) -> None:
    while True:
        await client.metadata()


def test_a_client_that_leaves_before_its_claim_is_looked_at(
    tmp_path: Path, credentials: Credentials
) -> None:
    """Its guess is not counted, as it was not looked at."""

    async def work(broker: Broker, port: int, account: Account) -> None:
        guessing = broker.security.guessing
        guessing.failed("127.0.0.1", FILE_USER)
        async with guessing.turn("127.0.0.1", FILE_USER, lambda: False):
            async with raw_client(port) as client:
                await client.handshake("PLAIN", version=0)
                client.send_token(account.login("PLAIN", wrong=True).first())
                (connection,) = broker.connections.all()
                await until(lambda: connection.open_requests == 1)
            await until(lambda: connection not in broker.connections)
        await until(lambda: not connection.open_requests)
        assert not counted(broker, FAILED, "PLAIN")

    with_broker(tmp_path, credentials, work)


def test_no_secret_is_logged(
    tmp_path: Path, credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "canary-3141"

    async def work(broker: Broker, port: int, account: Account) -> None:
        for mechanism in MECHANISMS:
            for token in (
                f"\0{FILE_USER}\0{secret}",
                secret,
                f"n,,\x01auth=Bearer {secret}\x01\x01",
            ):
                async with raw_client(port) as client:
                    await client.handshake(mechanism, version=0)
                    client.send_token(token.encode())
                    client.send_token(b"\x01")
                    await client.reader.read()

    with_broker(tmp_path, credentials, work)
    assert "did not authenticate" in caplog.text
    assert secret not in caplog.text
