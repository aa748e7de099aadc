"""SaslHandshake version 0, and the tokens without a header after it: what a client of our broker
sees, and what it sees of Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.apache_kafka import secured
from tests.apache_kafka.secured import SecuredKafka
from tests.secured import cells
from tests.secured.cells import Credentials
from tests.secured.hostile.peers import port_of
from tests.secured.raw_tokens import AGAIN, CONVERSATIONS, Account, seen
from tests.secured.server import SecuredServer

pytestmark = pytest.mark.kafka

HOLDS = "listener.name.scram_only.connections.max.reauth.ms=3600000"
ONLY_SCRAM = "listener.name.scram_only.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("kafka"), HOLDS) as broker:
        yield broker


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    credentials = Credentials(tmp_path_factory.mktemp("credentials"))
    folder = tmp_path_factory.mktemp("ours")
    more = {"SCRAM_ONLY": "SASL_PLAINTEXT"}
    with SecuredServer(folder, credentials, HOLDS, ONLY_SCRAM, more=more) as server:
        yield server


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_client_sees_the_same(ours: SecuredServer, kafka: SecuredKafka, name: str) -> None:
    listener = "SCRAM_ONLY" if name.startswith(AGAIN) else "SASL_PLAINTEXT"
    here = Account(cells.FILE_USER, cells.PASSWORD, ours.credentials.token())
    there = Account(secured.USER, secured.PASSWORD, kafka.token())
    at_kafka = asyncio.run(seen(name, port_of(kafka.address[listener]), there))
    assert asyncio.run(seen(name, port_of(ours.at(listener)), here)) == at_kafka
