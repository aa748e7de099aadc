"""The client against Apache Kafka with TLS and SASL: each way in, and each way that fails."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sharegroup import Admin, Consumer, Producer, Security, ShareConsumer, SharegroupError, sync
from sharegroup.client.network.addresses import Address
from sharegroup.client.network.connection import Connection
from sharegroup.client.security.access import ConnectionAccess
from sharegroup.model.errors import KafkaError, SaslAuthenticationFailed, TopicAuthorizationFailed
from sharegroup.spark.task.blocking import BlockingConnection
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.apache_kafka.secured import MECHANISMS, PASSWORD, STRANGER, SecuredKafka

pytestmark = pytest.mark.kafka

CELLS = [
    ("SSL", None),
    ("MTLS", None),
    *(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
    *(("SASL_SSL", mechanism) for mechanism in MECHANISMS),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


async def round_trip(address: str, security: Mapping[str, str], name: str) -> None:
    """Produce, share-consume, answer."""
    async with Producer(address, security=security) as producer:
        await producer.send(name, b"a record")
    async with ShareConsumer(
        name,
        group_id=name,
        bootstrap_servers=address,
        security=security,
        auto_offset_reset="earliest",
        acknowledgement_mode="explicit",
    ) as consumer:
        async for record in consumer:
            assert record.value == b"a record"
            consumer.accept(record)
            break
        results = await consumer.commit()
        assert results
        assert all(error is None for error in results.values())


@pytest.mark.parametrize(("listener", "mechanism"), CELLS)
def test_produce_share_consume_and_answer(
    kafka: SecuredKafka, listener: str, mechanism: str | None
) -> None:
    security = kafka.properties(listener, mechanism)
    name = f"{listener}-{mechanism}"
    asyncio.run(asyncio.wait_for(round_trip(kafka.address[listener], security, name), timeout=240))


async def refusal(address: str, security: Mapping[str, str]) -> str:
    """The error of a client's start, which comes soon."""
    started = asyncio.get_running_loop().time()
    with pytest.raises(SharegroupError) as caught:
        async with Admin(address, security=security):
            pass
    assert asyncio.get_running_loop().time() - started < 10
    assert PASSWORD not in repr(caught.value)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(
    ("listener", "mechanism", "changes", "expected"),
    [
        (
            "SASL_SSL",
            "PLAIN",
            {"sasl.password": "wrong"},
            "SaslAuthenticationFailed: .* refused the credentials for PLAIN",
        ),
        (
            "SASL_SSL",
            "SCRAM-SHA-512",
            {"sasl.password": "wrong"},
            "SaslAuthenticationFailed: .* refused the credentials for SCRAM-SHA-512",
        ),
        (
            "SASL_SSL",
            "SCRAM-SHA-256",
            {"sasl.username": "nobody"},
            "SaslAuthenticationFailed: .* refused the credentials for SCRAM-SHA-256",
        ),
        (
            "SASL_SSL",
            "OAUTHBEARER",
            {"sasl.oauthbearer.token": "not.a.token"},
            "SaslAuthenticationFailed: .* refused the credentials for OAUTHBEARER: invalid_token",
        ),
        (
            "SCRAM_ONLY",
            "SCRAM-SHA-512",
            {"sasl.mechanism": "PLAIN"},
            "UnsupportedSaslMechanism: .* mechanism PLAIN: it offers SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ("EXPIRED", None, {}, "TlsFailed: TLS with .* has expired"),
        ("ELSEWHERE", None, {}, "TlsFailed: .* for another host .*127.0.0.1"),
        ("SSL", None, {"ssl.truststore.location": "unknown-ca.pem"}, "TlsFailed: .* unknown auth"),
        (
            "MTLS",
            None,
            {"ssl.certificate.location": "", "ssl.key.location": "", "ssl.key.password": ""},
            "TlsFailed: .* does not accept this client's certificate, or asks for one",
        ),
        (
            "SASL_PLAINTEXT",
            "PLAIN",
            {"security.protocol": "SASL_SSL"},
            "BootstrapError: .* set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
        ),
        (
            "SASL_SSL",
            "PLAIN",
            {"security.protocol": "SASL_PLAINTEXT", "ssl.truststore.location": None},
            ".*set security.protocol to SSL or SASL_SSL",
        ),
        (
            "SASL_PLAINTEXT",
            None,
            {"security.protocol": "PLAINTEXT"},
            ".*security.protocol",
        ),
        (
            "PLAINTEXT",
            None,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "p",
            },
            ".*takes no login by SASL: is security.protocol right",
        ),
    ],
)
def test_what_fails_says_which_step_and_why(
    kafka: SecuredKafka,
    listener: str,
    mechanism: str | None,
    changes: Mapping[str, str | None],
    expected: str,
) -> None:
    address = kafka.address.get(listener, kafka.bootstrap)
    security = kafka.properties(listener, mechanism) if listener in kafka.address else {}
    for name, value in changes.items():
        if value is None:
            del security[name]
        else:
            security[name] = str(kafka.files / value) if value.endswith(".pem") else value
    said = asyncio.run(refusal(address, security))
    assert re.match(expected, said), said


def test_an_expired_token_is_refused(kafka: SecuredKafka) -> None:
    security = kafka.properties("SASL_SSL", "OAUTHBEARER")
    security["sasl.oauthbearer.token"] = kafka.token(lifetime_s=-60)
    said = asyncio.run(refusal(kafka.address["SASL_SSL"], security))
    assert re.match("SaslAuthenticationFailed: .* for OAUTHBEARER: invalid_token", said), said


class Tokens:
    """Gives tokens that are not kept, until `good` were given; then some that are refused."""

    def __init__(self, kafka: SecuredKafka, good: int = 1_000) -> None:
        self.given = 0
        self._kafka = kafka
        self._good = good

    def __call__(self) -> tuple[str, float]:
        self.given += 1
        return self._kafka.token() if self.given <= self._good else "not.a.token", 0.0


def with_tokens(kafka: SecuredKafka, tokens: Tokens) -> Security:
    return Security(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        ca_location=str(kafka.files / "ca.pem"),
        token_provider=tokens,
    )


def test_a_connection_logs_in_anew_and_goes_on(kafka: SecuredKafka) -> None:
    tokens = Tokens(kafka)
    host, port = kafka.address["REAUTH"].split(":")

    async def scenario() -> None:
        connection = await Connection.open(
            host,
            int(port),
            client_id="test",
            timeout_ms=10_000,
            access=ConnectionAccess(with_tokens(kafka, tokens)),
        )
        answered = 0
        while tokens.given < 4:  # the broker closes a connection whose login is over
            ten = [connection.post(METADATA, MetadataRequest(topics=[])) for _ in range(10)]
            for answer in await asyncio.gather(*ten):
                assert answer.brokers
                answered += 1
            await asyncio.sleep(0)
        assert not connection.closed
        connection.close()

    asyncio.run(asyncio.wait_for(scenario(), timeout=240))


def test_a_task_of_spark_logs_in_anew_and_goes_on(kafka: SecuredKafka) -> None:
    tokens = Tokens(kafka)
    host, port = kafka.address["REAUTH"].split(":")
    connection = BlockingConnection(
        Address(host, int(port)),
        client_id="test",
        timeout_ms=10_000,
        access=ConnectionAccess(with_tokens(kafka, tokens)),
    )
    while tokens.given < 3:
        response = connection.call(METADATA, MetadataRequest(topics=[]), MetadataResponse)
        assert response.brokers
    assert connection.idle
    connection.close()


def test_running_clients_say_when_they_are_not_let_in_any_more(kafka: SecuredKafka) -> None:
    address, name = kafka.address["REAUTH"], "let-in-no-more"

    async def produce(tokens: Tokens) -> None:
        async with Producer(address, security=with_tokens(kafka, tokens)) as producer:
            while True:
                await producer.send(name, b"")

    async def consume(tokens: Tokens) -> None:
        async with ShareConsumer(
            name,
            group_id=name,
            bootstrap_servers=address,
            security=with_tokens(kafka, tokens),
        ) as consumer:
            while True:
                await consumer.poll(0.2)

    async def read(tokens: Tokens) -> None:
        topic = f"{name}-in-order"
        async with Consumer(
            topic,
            group_id=topic,
            bootstrap_servers=address,
            security=with_tokens(kafka, tokens),
        ) as consumer:
            while True:
                await consumer.poll(0.2)

    async def administer(tokens: Tokens) -> None:
        async with Admin(address, security=with_tokens(kafka, tokens)) as admin:
            while True:
                await admin.describe_cluster()

    async def scenario() -> None:
        ends = await asyncio.gather(
            *(
                asyncio.wait_for(work(Tokens(kafka, good)), timeout=240)
                for work, good in ((produce, 2), (consume, 4), (read, 4), (administer, 2))
            ),
            return_exceptions=True,
        )
        assert [type(end) for end in ends] == [SaslAuthenticationFailed] * 4, ends

    asyncio.run(scenario())


def test_a_pkcs12_store_for_key_and_authorities(kafka: SecuredKafka) -> None:
    store, password = str(kafka.files / "client.p12"), kafka.KEY_PASSWORD
    security = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": store,
        "ssl.keystore.password": password,
        "ssl.truststore.location": str(kafka.files / "ca.pem"),
    }
    asyncio.run(asyncio.wait_for(round_trip(kafka.address["MTLS"], security, "pkcs12"), 240))


def test_blocking_clients_take_the_same(kafka: SecuredKafka) -> None:
    address, security = kafka.address["SASL_SSL"], kafka.properties("SASL_SSL", "SCRAM-SHA-256")
    with sync.Producer(address, security=security) as producer:
        producer.send("blocking", b"a record")
    with sync.Consumer(
        "blocking",
        group_id="blocking",
        bootstrap_servers=address,
        security=security,
        auto_offset_reset="earliest",
    ) as consumer:
        assert next(iter(consumer)).value == b"a record"
    with sync.Admin(address, security=security) as admin:
        assert "blocking" in [topic.name for topic in admin.list_topics()]


def test_commands_read_a_file_and_the_environment(kafka: SecuredKafka, tmp_path: Path) -> None:
    properties = kafka.properties("SASL_SSL", "SCRAM-SHA-512")
    password = properties.pop("sasl.password")
    config = tmp_path / "client.properties"
    lines = [f"{name}={text}\n" for name, text in properties.items()]
    config.write_text("".join([*lines, f"bootstrap.servers={kafka.address['SASL_SSL']}\n"]))

    def sharegroup(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SHAREGROUP_SASL_PASSWORD": password}
        environment.pop("SHAREGROUP_BOOTSTRAP_SERVER", None)
        return subprocess.run(
            [sys.executable, "-m", "sharegroup", "--command-config", str(config), *words],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=240,
        )

    topic = "by-command"
    assert sharegroup("topics", "create", topic).returncode == 0
    assert sharegroup("produce", topic, stdin="one\ntwo\n").returncode == 0
    looked = sharegroup("consume", topic, "--peek", "--max", "2")
    assert looked.stdout == "one\ntwo\n"
    taken = sharegroup("consume", topic, "--group", topic, "--from-beginning", "--max", "2")
    assert sorted(taken.stdout.split()) == ["one", "two"]
    config.write_text(config.read_text().replace("SCRAM-SHA-512", "PLAIN"))
    password = "wrong"
    refused = sharegroup("topics", "list")
    assert refused.returncode == 1
    assert "SASL_AUTHENTICATION_FAILED: " in refused.stderr
    assert "refused the credentials for PLAIN" in refused.stderr


def test_a_denial_says_what_is_not_allowed_on_what(kafka: SecuredKafka) -> None:
    address = kafka.address["SASL_SSL"]
    security = kafka.properties("SASL_SSL", "PLAIN")
    stranger = {**security, "sasl.username": STRANGER}

    async def scenario() -> None:
        await round_trip(address, security, "not-for-all")
        async with Producer(address, security=stranger) as producer:
            with pytest.raises(TopicAuthorizationFailed, match="DESCRIBE on topic 'not-for-all'"):
                await producer.send("not-for-all", b"")
        async with Admin(address, security=stranger) as admin:
            with pytest.raises(TopicAuthorizationFailed, match="DESCRIBE on topic 'not-for-all'"):
                await admin.describe_topics("not-for-all")
        for kind in (ShareConsumer, Consumer):
            with pytest.raises(KafkaError, match=r"not authorised for .* on (topic|group) '"):
                async with kind(
                    "not-for-all", group_id="g", bootstrap_servers=address, security=stranger
                ) as consumer:
                    await asyncio.wait_for(poll_for_ever(consumer), 120)

    async def poll_for_ever(consumer: ShareConsumer | Consumer) -> None:
        while True:
            await consumer.poll(0.2)

    asyncio.run(scenario())
