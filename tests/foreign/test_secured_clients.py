"""confluent-kafka and aiokafka through every way to prove who one is: produce, and read back."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place

from tests.foreign.secured_server import CELLS, PASSWORD, USER, SecuredServer, secured_server
from tests.servers.admin import SILENT, Admin

pytestmark = pytest.mark.process
SECONDS = 30
VALUES = [b"%d" % number for number in range(100)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    with secured_server(tmp_path_factory.mktemp("secured")) as running:
        yield running


def confluent(secured: SecuredServer, listener: str, mechanism: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": secured.bootstrap(listener),
        "security.protocol": listener.replace("MTLS", "SSL"),
        "ssl.ca.location": str(secured.certificates.authority_path),
        **SILENT,
    }
    if listener == "MTLS":
        found |= dict.fromkeys(
            ("ssl.certificate.location", "ssl.key.location"), str(secured.client)
        )
    if mechanism:
        found["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        found["oauth_cb"] = lambda _: (secured.token(), time.time() + 600)
    elif mechanism:
        found |= {"sasl.username": USER, "sasl.password": PASSWORD}
    return found


@pytest.mark.parametrize(("listener", "mechanism"), CELLS)
def test_confluent_kafka(secured: SecuredServer, listener: str, mechanism: str) -> None:
    topic = f"confluent-{listener}-{mechanism}"
    Admin(secured.bootstrap("ADMIN")).create_topic(topic)
    settings = confluent(secured, listener, mechanism)
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({**settings, "group.id": topic})
    consumer.assign([Place(topic, 0, 0)])
    try:
        found = consumer.consume(len(VALUES), timeout=SECONDS)
    finally:
        consumer.close()
    assert [message.value() for message in found] == VALUES


def wrong(secured: SecuredServer, mechanism: str) -> dict[str, Any]:
    if mechanism != "OAUTHBEARER":
        return {"sasl.password": "wrong"}
    token = secured.token(aud="another")
    return {"oauth_cb": lambda _: (token, time.time() + 600)}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_confluent_kafka_is_told_why_it_may_not_come_in(
    secured: SecuredServer, mechanism: str
) -> None:
    errors: list[KafkaError] = []
    settings = {
        **confluent(secured, "SASL_SSL", mechanism),
        **wrong(secured, mechanism),
        "error_cb": errors.append,
    }
    producer = Producer(settings)
    deadline = time.monotonic() + SECONDS
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    told = errors[0].str()
    assert (
        "invalid_token" in told if mechanism == "OAUTHBEARER" else "Authentication failed" in told
    )


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def aiokafka(secured: SecuredServer, listener: str, mechanism: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap(listener),
        "security_protocol": listener.replace("MTLS", "SSL"),
    }
    if listener != "SASL_PLAINTEXT":
        tls = ssl.create_default_context(cafile=str(secured.certificates.authority_path))
        if listener == "MTLS":
            tls.load_cert_chain(secured.client)
        found["ssl_context"] = tls
    if mechanism == "OAUTHBEARER":
        found["sasl_mechanism"] = mechanism
        found["sasl_oauth_token_provider"] = Tokens(secured.token())
    elif mechanism:
        found |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
    return found


@pytest.mark.parametrize(("listener", "mechanism"), CELLS)
def test_aiokafka(secured: SecuredServer, listener: str, mechanism: str) -> None:
    topic = f"aiokafka-{listener}-{mechanism}"
    Admin(secured.bootstrap("ADMIN")).create_topic(topic)

    async def work() -> list[bytes | None]:
        settings = aiokafka(secured, listener, mechanism)
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send(topic, value)
        async with AIOKafkaConsumer(**settings) as consumer:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(asyncio.wait_for(work(), SECONDS)) == VALUES
