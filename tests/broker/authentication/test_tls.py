"""TLS listeners: who may come in, what goes wrong, and certificates that change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.configs.described import describe_broker
from sharegroup.broker.server import Broker
from sharegroup.model.errors import InvalidConfig, InvalidRequest
from sharegroup.model.limits import UNAUTHENTICATED_MIN
from sharegroup.tls.self_signed import authority, signed
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sharegroup.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.authentication.raw_client import raw_client
from tests.broker.authentication.secured import HOST, Certificates, certificates, secured
from tests.broker.share_wire import until

Work = Callable[[Broker, int, Certificates], Coroutine[Any, Any, None]]

BROKER, SET = 4, 0


def with_broker(folder: Path, work: Work, *options: str) -> None:
    made = certificates(folder)
    own = made.broker()

    async def main() -> None:
        files = (f"ssl.keystore.location={own}", f"ssl.truststore.location={made.authority_path}")
        async with (
            asyncio.timeout(120),
            secured(folder, "SSL", *files, *options) as (broker, _, port),
        ):
            await work(broker, port, made)

    asyncio.run(main())


def context(made: Certificates, client: Path | None = None) -> ssl.SSLContext:
    found = ssl.create_default_context(cafile=str(made.authority_path))
    if client is not None:
        found.load_cert_chain(client)
    return found


def failures(broker: Broker) -> dict[str, int]:
    counts = broker.parts.counters.statistics()
    return {label: n for (name, label), n in counts.items() if name == "tls_handshake_failures"}


async def principal(broker: Broker, port: int, tls: ssl.SSLContext) -> str:
    async with raw_client(port, tls) as client:
        assert (await client.metadata()).cluster_id
        (view,) = broker.connections.views()
    await until(lambda: not len(broker.connections))
    return view.principal


def test_principals_of_certificates(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        assert await principal(broker, port, context(made)) == "User:ANONYMOUS"
        alice = context(made, made.client("alice"))
        assert await principal(broker, port, alice) == "User:alice"
        async with raw_client(port, context(made, made.client("42"))) as client:
            assert await client.is_closed()
        counts = broker.parts.counters.statistics()
        assert counts["authentication_failures", "SSL"] == 1

    rules = "ssl.principal.mapping.rules=RULE:^CN=([a-z]+)$/$1/"
    with_broker(tmp_path, work, "ssl.client.auth=requested", rules)


def test_a_name_is_the_principal_without_rules(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        found = await principal(broker, port, context(made, made.client("alice")))
        assert found == "User:CN=alice"

    with_broker(tmp_path, work, "ssl.client.auth=required")


def test_certificates_that_are_refused(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        old = signed(made.authority, "old", lifetime=timedelta(days=1), age=timedelta(days=2))
        stranger = signed(authority("another"), "stranger")
        for client in (None, made.write("old", old), made.write("stranger", stranger)):
            tls = context(made, client)
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                async with raw_client(port, tls) as raw:
                    await raw.metadata()
        await until(lambda: sum(failures(broker).values()) == 3)
        assert set(failures(broker)) == {
            "peer did not return a certificate",
            "the client's certificate is refused: certificate has expired",
            "the client's certificate is refused: unable to get local issuer certificate",
        }
        assert await principal(broker, port, context(made, made.client("a"))) == "User:CN=a"

    with_broker(tmp_path, work, "ssl.client.auth=required")


@pytest.mark.parametrize(
    "first",
    [
        bytes.fromhex("0000001500120003000000010003726177") + b"\0\4raw\0021\0",  # ApiVersions
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(100),
        b"\xff" * 100,
        bytes.fromhex("160301000501000001ff"),
        bytes.fromhex("1503010002") + b"\2\0",
    ],
)
def test_what_is_no_handshake_closes_the_connection(tmp_path: Path, first: bytes) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        async with raw_client(port) as client:
            client.writer.write(first)
            assert not (await client.reader.read()).startswith(b"\0")  # an alert of TLS at most
        await until(lambda: sum(failures(broker).values()) == 1)
        assert broker.connections.unauthenticated == 0
        assert await principal(broker, port, context(made)) == "User:ANONYMOUS"

    with_broker(tmp_path, work)


def test_plaintext_is_called_so(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        async with raw_client(port) as client:
            client.send(apis.METADATA, 1, apis.METADATA.request(None))
            await client.reader.read()
        await until(lambda: bool(failures(broker)))
        assert failures(broker) == {"the client speaks plaintext to a TLS listener": 1}

    with_broker(tmp_path, work)


def test_a_handshake_takes_a_while_at_most(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        async with raw_client(port) as client:
            client.writer.write(bytes.fromhex("160301"))
            assert await client.reader.read() == b""
        await until(lambda: bool(failures(broker)))
        assert failures(broker) == {"the client did not finish the handshake in time": 1}

    with_broker(tmp_path, work, "connections.authentication.timeout.ms=100")


def test_handshakes_have_a_share_of_the_connections(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        slow = [await asyncio.open_connection(HOST, port) for _ in range(UNAUTHENTICATED_MIN)]
        await until(lambda: broker.connections.unauthenticated == UNAUTHENTICATED_MIN)
        assert await principal(broker, port, context(made)) == "User:ANONYMOUS"
        counts = broker.parts.counters.statistics()
        assert counts["connections_refused", "unauthenticated"] == 1
        with suppress(ConnectionError):
            assert not await slow[0][0].read(1), "the oldest makes room"
        assert broker.connections.unauthenticated == UNAUTHENTICATED_MIN - 1
        for _, writer in slow:
            writer.close()
        await until(lambda: not broker.connections.unauthenticated)
        assert await principal(broker, port, context(made)) == "User:ANONYMOUS"

    with_broker(tmp_path, work, f"max.connections={4 * UNAUTHENTICATED_MIN}")


def test_records_come_encrypted_and_whole(tmp_path: Path) -> None:
    """Plain Fetch sends checked records from the file; not so under TLS."""

    async def work(broker: Broker, port: int, made: Certificates) -> None:
        batches = [encode_batch([(None, bytes([i]) * 100_000)], timestamp_ms=0) for i in range(40)]
        async with raw_client(port, context(made)) as client:
            await client.ask(
                apis.CREATE_TOPICS, 5, CreateTopicsRequest([CreatableTopic("t", 1, 1)])
            )
            for batch in batches:
                data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
                await client.ask(apis.PRODUCE, 9, ProduceRequest(acks=-1, topic_data=data))
            for _ in range(2):  # the second time the records are checked
                partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=8 << 20)
                request = FetchRequest(
                    max_wait_ms=0,
                    max_bytes=8 << 20,
                    topics=[FetchTopic("t", partitions=[partition])],
                )
                answer = await client.ask(apis.FETCH, 12, request)
                records = bytes(answer.responses[0].partitions[0].records)
                assert len(records) == sum(map(len, batches))
                for number in range(40):
                    assert records.count(bytes([number]) * 100_000) == 1

    with_broker(tmp_path, work)


def serial(port: int, made: Certificates) -> Coroutine[Any, Any, int]:
    async def ask() -> int:
        async with raw_client(port, context(made)) as client:
            tls = client.writer.get_extra_info("ssl_object")
            number = tls.getpeercert()["serialNumber"]
        return int(number, 16)

    return ask()


def test_a_renewed_certificate_needs_no_restart(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        first = await serial(port, made)
        async with raw_client(port, context(made)) as before:
            path = made.broker()
            assert await serial(port, made) == first
            assert broker.security.read_again() == 1
            second = await serial(port, made)
            assert second != first
            path.write_text("rubbish")
            with pytest.raises(InvalidConfig, match="cannot be read from"):
                broker.security.read_again()
            assert await serial(port, made) == second
            assert (await before.metadata()).cluster_id

    with_broker(tmp_path, work)


def test_settings_of_tls_are_altered_while_it_runs(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        async def alter(name: str, value: str) -> tuple[int, str]:
            configs = [AlterableConfig(name, SET, value)]
            resources = [AlterConfigsResource(BROKER, "1", configs)]
            async with raw_client(port, context(made)) as client:
                answer = await client.ask(
                    apis.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources)
                )
            (response,) = answer.responses
            return response.error_code, response.error_message or ""

        first = await serial(port, made)
        other = made.broker("other")
        name = "listener.name.ssl.ssl.keystore.location"
        assert await alter(name, str(other)) == (0, "")
        second = await serial(port, made)
        assert second != first
        code, sentence = await alter(name, str(tmp_path / "nowhere"))
        assert code == InvalidRequest.code
        assert "nowhere" in sentence
        assert await serial(port, made) == second
        assert await alter("ssl.truststore.certificates", "") == (0, "")
        for secret in ("ssl.truststore.password", "listener.name.ssl.plain.sasl.jaas.config"):
            code, sentence = await alter(secret, "hunter2")
            assert code == InvalidRequest.code
            assert "not stored" in sentence
            assert "hunter2" not in sentence + (tmp_path / "data" / "catalog.json").read_text()
        assert (await alter("ssl.principal.mapping.rules", "DEFAULT"))[0]  # that needs a restart
        entries = {entry.name: entry for entry in describe_broker(broker.parts.configs.broker)}
        assert entries["ssl.truststore.password"].sensitive
        assert entries["ssl.truststore.password"].read_only
        assert entries[name].value == str(other)
        assert await alter("ssl.client.auth", "required") == (0, "")
        assert await principal(broker, port, context(made, made.client("a"))) == "User:CN=a"
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await principal(broker, port, context(made))
        assert secret not in repr(entries) + repr(broker.parts.configs.broker)

    with_broker(tmp_path, work)


def test_a_certificate_that_cannot_be_read_is_nobodys(tmp_path: Path) -> None:
    async def work(broker: Broker, port: int, made: Certificates) -> None:
        security = broker.security.open("SSL")
        assert security is not None
        assert security.principal_of(b"no certificate") is None
        assert security.material.context is not None
        assert security.material.context.options & ssl.OP_NO_RENEGOTIATION

    with_broker(tmp_path, work)
