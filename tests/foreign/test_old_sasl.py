"""kafka-python as of protocol 0.11, where SaslHandshake had version 0 alone: it sends its tokens
without a header. Each mechanism, over TCP and TLS."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.secured.cells import FILE_USER, MECHANISMS, PASSWORD, Cell, Credentials
from tests.secured.server import SecuredServer
from tests.servers.admin import Admin

FORGOTTEN = "ignore:Exception ignored in. <(socket|ssl):pytest.PytestUnraisableExceptionWarning"
pytestmark = [pytest.mark.process, pytest.mark.filterwarnings(FORGOTTEN)]

PATIENCE_S = 120
OLD = (0, 11)
CELLS = [
    Cell(listener, mechanism)
    for listener in ("SASL_PLAINTEXT", "SASL_SSL")
    for mechanism in MECHANISMS
]
cells = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredServer]:
    folder = tmp_path_factory.mktemp("server")
    options = ("group.initial.rebalance.delay.ms=0", "connection.failed.authentication.delay.ms=0")
    with SecuredServer(folder, credentials, *options) as server:
        yield server


@pytest.fixture(autouse=True)
def forgotten_sockets() -> Iterator[None]:
    """What a client forgot is collected while its warning is ignored, not in another test."""
    yield
    gc.collect()


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def settings(
    server: SecuredServer, cell: Cell, password: str = PASSWORD, token: str = ""
) -> dict[str, Any]:
    return {
        "bootstrap_servers": server.at(cell.listener),
        "api_version": OLD,
        "security_protocol": cell.protocol,
        "ssl_cafile": str(server.credentials.authority_file),
        "sasl_mechanism": cell.mechanism,
        "sasl_plain_username": FILE_USER,
        "sasl_plain_password": password,
        "sasl_oauth_token_provider": Tokens(token or server.credentials.token()),
    }


@cells
def test_a_record_and_a_group(
    server: SecuredServer, cell: Cell, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="kafka")
    Admin(server.at("PLAINTEXT")).create_topic(cell.name)
    with closing(KafkaProducer(**settings(server, cell))) as producer:
        assert producer.send(cell.name, b"old", partition=0).get(PATIENCE_S).offset == 0
    assert f"SaslHandshakeRequest(version=0, mechanism='{cell.mechanism}')" in caplog.text
    assert "SaslAuthenticateRequest" not in caplog.text
    reader = KafkaConsumer(
        cell.name,
        group_id=cell.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=PATIENCE_S * 1000,
        **settings(server, cell),
    )
    with closing(reader) as consumer:
        assert next(iter(consumer)).value == b"old"
        consumer.commit()


@cells
def test_wrong_credentials(
    server: SecuredServer, cell: Cell, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection is closed without a word: that is all that version 0 has for it."""
    caplog.set_level(logging.DEBUG, logger="kafka")
    wrong = settings(server, cell, "wrong", Credentials(tmp_path).token())
    brief = {"bootstrap_timeout_ms": 500, "max_block_ms": 500}
    with (
        closing(KafkaProducer(**wrong, **brief)) as producer,
        pytest.raises(KafkaTimeoutError),
    ):
        producer.partitions_for(cell.name)
    assert f"SaslHandshakeRequest(version=0, mechanism='{cell.mechanism}')" in caplog.text
    assert "socket disconnected" in caplog.text
