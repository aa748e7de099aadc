"""The order of requests on a SASL listener, by a client that does not keep to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.configs.described import describe_broker
from sharegroup.broker.network.sasl_session import VERSIONS_TOLD_MAX
from sharegroup.broker.server import Broker
from sharegroup.model.limits import (
    UNAUTHENTICATED_MIN,
)
from sharegroup.wire import apis
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.authentication.raw_client import RawClient, raw_client
from tests.broker.authentication.secured import plain_users, secured
from tests.broker.share_wire import until

Work = Callable[[Broker, int], Coroutine[Any, Any, None]]

USERS = plain_users("SASL_PLAINTEXT", {"alice": "secret", "bob": "secret"})
OFFERED = "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256"
LONGEST = "socket.request.max.bytes=1048576"
AT_ONCE = "connection.failed.authentication.delay.ms=0"


def with_broker(folder: Path, work: Work, *options: str) -> None:
    async def main() -> None:
        options_ = (OFFERED, USERS, AT_ONCE, *options)
        async with (
            asyncio.timeout(120),
            secured(folder, "SASL_PLAINTEXT", *options_) as (broker, _, port),
        ):
            await work(broker, port)

    asyncio.run(main())


async def is_alice(client: RawClient, broker: Broker) -> bool:
    await client.metadata()
    (view,) = broker.connections.views()
    return view.principal == "User:alice"


def test_the_usual_order(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            versions = await client.ask(apis.API_VERSIONS, 3, ApiVersionsRequest("raw", "1"))
            told = {api.api_key: (api.min_version, api.max_version) for api in versions.api_keys}
            assert told[17] == (0, 1)
            assert told[36] == (0, 2)
            handshake = await client.handshake("PLAIN")
            assert (handshake.error_code, handshake.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
            answer = await client.authenticate(b"\0alice\0secret")
            assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
            assert await is_alice(client, broker)
            assert broker.connections.unauthenticated == 0

    with_broker(tmp_path, work)


def test_requests_sent_ahead_are_served_in_order(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            client.send(apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            client.send(apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0secret"))
            for _ in range(50):
                client.send(apis.METADATA, 12, MetadataRequest(None))
            assert not (await client.receive(apis.SASL_HANDSHAKE, 1)).error_code
            assert not (await client.receive(apis.SASL_AUTHENTICATE, 2)).error_code
            for _ in range(50):
                assert (await client.receive(apis.METADATA, 12)).cluster_id

    with_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [
        (apis.METADATA, 12, MetadataRequest(None)),
        (apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0secret")),
    ],
)
def test_nothing_is_served_before(
    tmp_path: Path, api: apis.Api, version: int, request_: Any
) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            client.send(api, version, request_)
            assert await client.is_closed()

    with_broker(tmp_path, work)


def test_a_request_in_the_middle_of_an_exchange(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            await client.handshake("PLAIN")
            client.send(apis.LIST_GROUPS, 4, apis.LIST_GROUPS.request())
            assert (await client.receive(apis.LIST_GROUPS, 4)).error_code == 34
            assert await client.is_closed()

    with_broker(tmp_path, work)


def test_a_mechanism_that_is_not_offered(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            answer = await client.handshake("SCRAM-SHA-512")
            assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-256"])
            assert await client.is_closed()
        async with raw_client(port) as client:
            answer = await client.handshake("SCRAM-SHA-512", version=0)
            assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-256"])
            assert await client.is_closed()

    with_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "Secret"), ("nobody", "secret"), ("al\u00efce", "x" * 10_000)]
)
def test_wrong_passwords_and_unknown_users_hear_the_same(
    tmp_path: Path, user: str, password: str
) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            answer = await client.plain(user, password)
            assert answer.error_code == 58
            assert answer.error_message == "Authentication failed: Invalid username or password"
            assert await client.is_closed()
        counts = broker.parts.counters.statistics()
        assert counts["authentication_failures", "PLAIN"] == 1

    with_broker(tmp_path, work)


def test_scram_with_a_wrong_proof(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            await client.handshake("SCRAM-SHA-256")
            first = await client.authenticate(b"n,,n=alice,r=client")
            nonce = first.auth_bytes.split(b",")[0]
            answer = await client.authenticate(b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=")
            assert answer.error_code == 58
            assert answer.error_message == (
                "Authentication failed during authentication due to invalid credentials with SASL "
                "mechanism SCRAM-SHA-256"
            )
            assert await client.is_closed()

    with_broker(tmp_path, work)


def test_the_sasl_requests_after_it(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            await client.plain("alice", "secret")
            assert (await client.handshake("PLAIN")).error_code == 34
            assert (await client.authenticate(b"\0bob\0secret")).error_code == 34
            assert await is_alice(client, broker)

    with_broker(tmp_path, work)


def test_the_longest_request_of_a_stranger(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            client.writer.write((1001).to_bytes(4, "big") + b"\0\x24\0\x02")
            assert await client.is_closed()
        async with raw_client(port) as client:
            await client.plain("alice", "secret")
            request = MetadataRequest([MetadataRequestTopic(name="x" * 2000)])
            assert await client.ask(apis.METADATA, 12, request)

    with_broker(tmp_path, work, "sasl.server.max.receive.size=1000")


def test_a_client_that_does_not_authenticate_in_time(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            await client.handshake("PLAIN")
            assert await client.is_closed()
        assert broker.parts.counters.statistics()["authentications_late", ""] == 1
        assert broker.connections.unauthenticated == 0

    with_broker(tmp_path, work, "connections.authentication.timeout.ms=100")


def test_strangers_may_have_a_share_of_the_connections(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with AsyncExitStack() as stack:
            strangers = [
                await stack.enter_async_context(raw_client(port))
                for _ in range(UNAUTHENTICATED_MIN)
            ]
            await until(lambda: broker.connections.unauthenticated == UNAUTHENTICATED_MIN)
            async with raw_client(port) as client:
                assert not (await client.plain("alice", "secret")).error_code
            assert await strangers[0].is_closed(), "the oldest makes room"
            assert not (await strangers[1].plain("alice", "secret")).error_code
            assert broker.connections.unauthenticated == UNAUTHENTICATED_MIN - 2
        counts = broker.parts.counters.statistics()
        assert counts["connections_refused", "unauthenticated"] == 1

    with_broker(tmp_path, work, f"max.connections={4 * UNAUTHENTICATED_MIN}")


def test_strangers_may_have_a_share_of_the_memory(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with AsyncExitStack() as stack:
            begun = (500_000).to_bytes(4, "big") + b"\0\x24\0\x02"
            for _ in range(3 * UNAUTHENTICATED_MIN):
                client = await stack.enter_async_context(raw_client(port))
                client.writer.write(begun)
            name = ("connections_refused", "unauthenticated requests")
            counts = broker.parts.counters.statistics
            await until(lambda: counts().get(name) == 2 * UNAUTHENTICATED_MIN)
            assert broker.connections.request_bytes < UNAUTHENTICATED_MIN * 600_000

    with_broker(tmp_path, work, "queued.max.request.bytes=16777216", LONGEST)


def test_the_versions_are_told_a_few_times(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            for _ in range(VERSIONS_TOLD_MAX):
                assert await client.ask(apis.API_VERSIONS, 3, ApiVersionsRequest("raw", "1"))
            client.send(apis.API_VERSIONS, 3, ApiVersionsRequest("raw", "1"))
            assert await client.is_closed()

    with_broker(tmp_path, work)


def test_authenticating_again(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            assert (await client.plain("alice", "secret")).session_lifetime_ms == 3_600_000
            client.send(apis.METADATA, 12, MetadataRequest(None))  # it is still on its way
            client.send(apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            assert (await client.receive(apis.METADATA, 12)).cluster_id
            assert not (await client.receive(apis.SASL_HANDSHAKE, 1)).error_code
            assert not (await client.authenticate(b"\0alice\0secret")).error_code
            assert await is_alice(client, broker)
            assert (await client.handshake("PLAIN")).error_code == 34  # within the same second
        async with raw_client(port) as client:
            await client.plain("alice", "secret")
            answer = await client.plain("bob", "secret")
            assert answer.error_code == 58
            assert answer.error_message == (
                "Cannot change principals during re-authentication from User.alice: User.bob"
            )
            assert await client.is_closed()
        async with raw_client(port) as client:
            await client.plain("alice", "secret")
            assert not (await client.handshake("SCRAM-SHA-256")).error_code
            answer = await client.authenticate(b"n,,n=alice,r=x")
            assert answer.error_code == 58
            assert answer.error_message == (
                "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for "
                "re-authentication of mechanism 'PLAIN'"
            )
            assert await client.is_closed()
        async with raw_client(port) as client:
            await client.plain("alice", "secret")
            await client.handshake("PLAIN")
            client.send(apis.METADATA, 12, MetadataRequest(None))
            await client.receive(apis.METADATA, 12)
            assert await client.is_closed()

    with_broker(tmp_path, work, "connections.max.reauth.ms=3600000")


def test_a_client_that_does_not_authenticate_again_is_closed(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            answer = await client.authenticate_plain_v1()
            assert answer.session_lifetime_ms == 1
            while True:  # its time ends soon, and then the next request closes the connection
                client.send(apis.METADATA, 12, MetadataRequest(None))
                try:
                    await client.receive(apis.METADATA, 12)
                except asyncio.IncompleteReadError:
                    break
        assert broker.parts.counters.statistics()["authentications_expired", ""] == 1

    option = "listener.name.sasl_plaintext.plain.connections.max.reauth.ms=1"
    with_broker(tmp_path, work, option)


def test_tls_to_a_plaintext_listener(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            client.writer.write(bytes.fromhex("16030102000100"))
            assert await client.is_closed()

    with_broker(tmp_path, work)
    assert "it speaks TLS to a plaintext listener" in caplog.text


def test_an_unknown_user_keeps_its_salt_over_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    salts = []

    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            await client.handshake("SCRAM-SHA-256")
            answer = await client.authenticate(b"n,,n=nobody,r=client")
            salts.append(answer.auth_bytes.split(b",")[1])
        assert ("", 1) in broker.parts.security.state.credentials

    for _ in range(2):
        with_broker(tmp_path, work, "sasl.enabled.mechanisms=SCRAM-SHA-256")
    assert salts[0] == salts[1]
    assert "nobody can log in to the listener SASL_PLAINTEXT yet" in caplog.text


def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "canary-3141"

    async def work(broker: Broker, port: int) -> None:
        for user, password in (
            ("alice", secret),
            ("alice", f"{secret}x"),
            ("nobody", secret),
            ("alice", f"{secret}\0{secret}"),
            ("", secret),
        ):
            async with raw_client(port) as client:
                await client.plain(user, password)
        async with raw_client(port) as client:
            await client.handshake("SCRAM-SHA-256")
            await client.authenticate(secret.encode())
        shown = [*describe_broker(broker.parts.configs.broker), broker.parts.configs.broker]
        assert secret not in repr(shown)
        assert secret not in repr(broker.security.open("SASL_PLAINTEXT").__dict__)  # type: ignore[union-attr]

    with_broker(tmp_path, work, plain_users("SASL_PLAINTEXT", {"alice": secret}))
    assert "did not authenticate" in caplog.text
    assert secret not in caplog.text


def test_fetches_that_wait_are_served_while_the_client_authenticates_again(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int) -> None:
        async with raw_client(port) as client:
            await client.plain("alice", "secret")
            create = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
            await client.ask(apis.CREATE_TOPICS, 5, create)
            topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0)])
            fetch = FetchRequest(max_wait_ms=200, min_bytes=1, topics=[topic])
            for _ in range(2):  # the second waits for the first
                client.send(apis.FETCH, 12, fetch)
            client.send(apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            client.send(apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0secret"))
            for _ in range(2):
                assert not (await client.receive(apis.FETCH, 12)).error_code
            assert not (await client.receive(apis.SASL_HANDSHAKE, 1)).error_code
            assert not (await client.receive(apis.SASL_AUTHENTICATE, 2)).error_code
            assert await is_alice(client, broker)

    with_broker(tmp_path, work, "connections.max.reauth.ms=3600000")
