"""The client against Apache Kafka with TLS and SASL: each way in, and each way that fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping

import pytest

from sharegroup import Admin, Consumer, Producer, Security, ShareConsumer, SharegroupError
from sharegroup.client.network.addresses import Address
from sharegroup.client.network.connection import Connection
from sharegroup.client.security.access import Access
from sharegroup.model.errors import SaslAuthenticationFailed
from sharegroup.spark.task.blocking import BlockingConnection
from sharegroup.wire.apis import METADATA
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.apache_kafka.secured import MECHANISMS, PASSWORD, SecuredKafka

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
    asyncio.run(asyncio.wait_for(round_trip(kafka.address[listener], security, name), timeout=60))


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
            access=Access(with_tokens(kafka, tokens)),
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

    asyncio.run(asyncio.wait_for(scenario(), timeout=60))


def test_a_task_of_spark_logs_in_anew_and_goes_on(kafka: SecuredKafka) -> None:
    tokens = Tokens(kafka)
    host, port = kafka.address["REAUTH"].split(":")
    connection = BlockingConnection(
        Address(host, int(port)),
        client_id="test",
        timeout_ms=10_000,
        access=Access(with_tokens(kafka, tokens)),
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
                asyncio.wait_for(work(Tokens(kafka, good)), timeout=40)
                for work, good in ((produce, 2), (consume, 4), (read, 4), (administer, 2))
            ),
            return_exceptions=True,
        )
        assert [type(end) for end in ends] == [SaslAuthenticationFailed] * 4, ends

    asyncio.run(scenario())
