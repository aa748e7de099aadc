"""Both drivers through TLS, over real sockets: files that are changed while a client runs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from sharegroup.client.network.addresses import Address
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.connection import Connection
from sharegroup.client.security.access import ConnectionAccess, shared_access
from sharegroup.client.security.settings import NO_SECURITY, Security
from sharegroup.model.errors import ConfigError, NetworkException, TlsFailed
from sharegroup.spark.task.blocking import BlockingConnection
from sharegroup.tls.contexts import server_context
from sharegroup.tls.failures import failure
from sharegroup.tls.self_signed import Identity, authority, signed
from sharegroup.tls.stores import KeyStore, TrustStore
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.scripted_server import ScriptedServer


@pytest.fixture(scope="module")
def known() -> Identity:
    return authority()


def server_tls(known: Identity, *, client_auth: str = "none") -> ssl.SSLContext:
    own = signed(known, "broker", hosts=["127.0.0.1", "localhost"])
    return server_context(
        KeyStore(certificate_text=own.certificate_pem, key_text=own.key_pem),
        TrustStore(text=known.certificate_pem),
        client_auth=client_auth,
    )


async def metadata_of(server: ScriptedServer, access: ConnectionAccess) -> int:
    """How many brokers a new connection sees."""
    connection = await Connection.open(
        "127.0.0.1", server.port, client_id="test", timeout_ms=60_000, access=access
    )
    try:
        request = MetadataRequest(topics=[])
        response: MetadataResponse = await connection.send(METADATA, request, timeout_ms=60_000)
        return len(response.brokers)
    finally:
        connection.close()


def ask_blocking(port: int, access: ConnectionAccess) -> int:
    connection = BlockingConnection(
        Address("127.0.0.1", port), client_id="test", timeout_ms=60_000, access=access
    )
    try:
        response = connection.call(METADATA, MetadataRequest(topics=[]), MetadataResponse)
        return len(response.brokers)
    finally:
        connection.close()


def test_new_files_take_effect_with_the_next_connection(
    known: Identity, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ca.pem"
    access = ConnectionAccess(Security(protocol="SSL", ca_location=str(file)))

    async def scenario() -> None:
        async with ScriptedServer(tls=server_tls(known)) as server:
            with pytest.raises(ConfigError, match="No such file"):
                await metadata_of(server, access)
            file.write_text(authority().certificate_pem)
            with pytest.raises(TlsFailed, match="unknown authority"):
                await metadata_of(server, access)
            file.write_text(known.certificate_pem)
            assert await metadata_of(server, access) == 1
            assert access.prepare().context is access.prepare().context
            file.write_text("half a file")  # somebody is writing it
            with caplog.at_level(logging.ERROR):
                assert await metadata_of(server, access) == 1
            assert "connections go on with the certificates read before" in caplog.text

    asyncio.run(scenario())


def test_a_client_certificate_and_a_blocking_connection(known: Identity) -> None:
    client = signed(known, "client")
    access = ConnectionAccess(
        Security(
            protocol="SSL",
            ca_text=known.certificate_pem,
            certificate_text=client.certificate_pem,
            key_text=client.key_pem_encrypted("of the key"),
            key_password="of the key",
        )
    )
    without = ConnectionAccess(Security(protocol="SSL", ca_text=known.certificate_pem))

    async def scenario() -> None:
        async with ScriptedServer(tls=server_tls(known, client_auth="required")) as server:
            assert await metadata_of(server, access) == 1
            assert await asyncio.to_thread(ask_blocking, server.port, access) == 1
            for refused in (
                metadata_of(server, without),
                asyncio.to_thread(ask_blocking, server.port, without),
            ):
                # The reason may be lost: the server drops the connection when it has sent it.
                with pytest.raises((TlsFailed, NetworkException), match=r"ssl\.keystore\.location"):
                    await refused

    asyncio.run(scenario())


def test_without_verification_anybody_is_the_broker(known: Identity) -> None:
    async def scenario() -> None:
        async with ScriptedServer(tls=server_tls(known)) as server:
            for driver in (
                lambda access: metadata_of(server, access),
                lambda access: asyncio.to_thread(ask_blocking, server.port, access),
            ):
                with pytest.raises(TlsFailed, match="unknown authority"):
                    await driver(ConnectionAccess(Security(protocol="SSL")))
                assert await driver(ConnectionAccess(Security(protocol="SSL", verify=False))) == 1

    asyncio.run(scenario())


def test_one_side_without_tls(known: Identity) -> None:
    tls = ConnectionAccess(Security(protocol="SSL", ca_text=known.certificate_pem))

    async def scenario() -> None:
        async with ScriptedServer(tls=server_tls(known)) as server:
            with pytest.raises(
                (TlsFailed, NetworkException), match=r"set security\.protocol to SSL"
            ):
                await metadata_of(server, ConnectionAccess(NO_SECURITY))
        async with ScriptedServer() as server:
            server_closes = "port without TLS, set security.protocol to PLAINTEXT"
            with pytest.raises((TlsFailed, NetworkException), match=server_closes):
                await metadata_of(server, tls)

    asyncio.run(scenario())


def test_a_strange_bootstrap_server_does_not_end_a_client_of_another(known: Identity) -> None:
    """Its certificate is wrong. While the right one restarts, nobody else answers."""
    security = Security(protocol="SSL", ca_text=known.certificate_pem)

    async def scenario() -> None:
        right, strange = ScriptedServer(tls=server_tls(known)), server_tls(authority())
        async with ScriptedServer(tls=strange) as other:
            async with right:
                servers = [other.address, right.address]
                cluster = Cluster(servers, security=security, bootstrap_timeout_ms=60_000)
                await cluster.start()
            with pytest.raises(NetworkException, match=right.address):
                await cluster.refresh()
            async with right:
                await cluster.refresh()
        wrong = ScriptedServer(tls=strange)
        wrong.port = right.port
        async with wrong:
            with pytest.raises(TlsFailed, match=right.address):
                await cluster.refresh()
        await cluster.close()

    asyncio.run(scenario())


def test_a_name_that_is_not_known_is_told() -> None:
    async def scenario() -> None:
        with pytest.raises(NetworkException, match=r"name broker\.invalid cannot be resolved"):
            await Connection.open("broker.invalid", 9092, client_id="test", timeout_ms=50_000)

    asyncio.run(scenario())


def test_what_is_read_once_is_shared_by_equal_settings() -> None:
    assert shared_access(NO_SECURITY) is None
    assert shared_access(Security(protocol="SSL")) is shared_access(Security(protocol="SSL"))
    other = Security(protocol="SSL", check_host=False)
    assert shared_access(other) is not shared_access(Security(protocol="SSL"))


def test_a_port_that_nobody_listens_on_is_told_in_the_systems_words() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            port = server.port
        for host, shown in (("127.0.0.1", "127.0.0.1"), ("::1", r"\[::1\]")):
            with pytest.raises(NetworkException, match=f"^{shown}:{port} cannot be reached: [A-Z]"):
                await Connection.open(host, port, client_id="test", timeout_ms=60_000)

    asyncio.run(scenario())


def test_many_addresses_that_cannot_be_reached_are_one_sentence() -> None:
    many = OSError(
        "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 111] Connect"
        " call failed ('127.0.0.1', 1), [Errno 113] Connect call failed ('192.0.2.1', 1)"
    )
    said = str(failure("a:1", many, encrypted=False))
    assert said == "a:1 cannot be reached: Connection refused; No route to host"
