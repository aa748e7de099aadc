"""How each client is told a cell, and what it does there: write a record, take it, answer it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Producer, ShareConsumer

from tests.foreign.share_reader import receive_accepting
from tests.secured.cells import PASSWORD, USER, Cell, Credentials
from tests.servers.admin import SILENT

SECONDS: Final = 120
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


def java_properties(cell: Cell, credentials: Credentials) -> dict[str, str]:
    """As Java's clients, Spark and our own take them."""
    found = {"security.protocol": cell.protocol}
    if cell.tls:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.location"] = str(credentials.authority_file)
    if cell.listener == "MTLS":
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.location"] = str(credentials.client_file)
    if cell.mechanism:
        found["sasl.mechanism"] = cell.mechanism
        login = f"{_MODULES[cell.mechanism]} required"
        if cell.mechanism != "OAUTHBEARER":
            login += f' username="{USER}" password="{PASSWORD}"'
        found["sasl.jaas.config"] = f"{login};"
    return found


def java_file(
    path: Path, cell: Cell, credentials: Credentials, more: Mapping[str, str] = NOTHING
) -> Path:
    """The properties of a cell in a file, for a client or a tool of Java; ``more`` win.

    Java reads a token only from files that :func:`allowed_token` allows it.
    """
    settings = java_properties(cell, credentials)
    if cell.mechanism == "OAUTHBEARER":
        settings["sasl.oauthbearer.token.endpoint.url"] = credentials.token_file().as_uri()
        settings["sasl.login.callback.handler.class"] = (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        )
    settings |= more
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def allowed_token(credentials: Credentials) -> str:
    """The option of Java."""
    allowed = credentials.token_file().as_uri()
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}"


def librdkafka_properties(cell: Cell, credentials: Credentials) -> dict[str, Any]:
    """As librdkafka takes them."""
    found: dict[str, Any] = {"security.protocol": cell.protocol}
    if cell.tls:
        found["ssl.ca.location"] = str(credentials.authority_file)
    if cell.listener == "MTLS":
        found["ssl.certificate.location"] = str(credentials.certificate_file)
        found["ssl.key.location"] = str(credentials.key_file)
    if cell.mechanism == "OAUTHBEARER":
        found["sasl.mechanisms"] = cell.mechanism
        found["oauth_cb"] = lambda _: (credentials.token(), time.time() + 3_000)
    elif cell.mechanism:
        found |= {"sasl.mechanisms": cell.mechanism}
        found |= {"sasl.username": USER, "sasl.password": PASSWORD}
    return found


def by_librdkafka(
    cell: Cell, bootstrap: str, topic: str, group: str, credentials: Credentials
) -> None:
    """Producer and ShareConsumer of confluent-kafka."""
    settings = librdkafka_properties(cell, credentials)
    producer = Producer({"bootstrap.servers": bootstrap, **settings, **SILENT})
    producer.produce(topic, b"librdkafka")
    assert producer.flush(SECONDS) == 0
    member = {"bootstrap.servers": bootstrap, "group.id": group, **settings, **SILENT}
    with ShareConsumer(member) as consumer:
        consumer.subscribe([topic])
        assert b"librdkafka" in receive_accepting(consumer, 1)


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def token(self) -> str:
        return self._credentials.token()


def by_aiokafka(cell: Cell, bootstrap: str, topic: str, credentials: Credentials) -> None:
    """aiokafka has no share consumer: it reads the partition."""
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": cell.protocol,
    }
    if cell.tls:
        mutual = cell.listener == "MTLS"
        settings["ssl_context"] = create_ssl_context(
            cafile=str(credentials.authority_file),
            certfile=str(credentials.certificate_file) if mutual else None,
            keyfile=str(credentials.key_file) if mutual else None,
        )
    if cell.mechanism == "OAUTHBEARER":
        settings["sasl_mechanism"] = cell.mechanism
        settings["sasl_oauth_token_provider"] = _Tokens(credentials)
    elif cell.mechanism:
        settings["sasl_mechanism"] = cell.mechanism
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}

    async def work() -> bytes | None:
        async with AIOKafkaProducer(**settings) as producer:
            sent = await producer.send_and_wait(topic, b"aiokafka", partition=0)
        async with AIOKafkaConsumer(**settings) as consumer:
            where = TopicPartition(topic, 0)
            consumer.assign([where])
            consumer.seek(where, sent.offset)
            return (await consumer.getone()).value

    assert asyncio.run(asyncio.wait_for(work(), SECONDS)) == b"aiokafka"


def go_cell(
    cell: Cell, bootstrap: str, topic: str, group: str, credentials: Credentials
) -> dict[str, str]:
    """What go/secured.go is told."""
    found = {"Name": cell.name, "Bootstrap": bootstrap, "Topic": topic, "Group": group}
    if cell.tls:
        found["Authority"] = str(credentials.authority_file)
    if cell.listener == "MTLS":
        found["Certificate"] = str(credentials.certificate_file)
        found["Key"] = str(credentials.key_file)
    if cell.mechanism:
        found |= {"Mechanism": cell.mechanism, "User": USER, "Password": PASSWORD}
        found["Token"] = credentials.token()
    return found
