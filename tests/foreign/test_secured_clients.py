"""Each client by each listener and mechanism: a record is written, taken by a share group, and
answered. aiokafka and kafka-python have no share consumer; aiokafka reads what it wrote.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, ThrottleEvent

from sharegroup import sync
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN
from tests.foreign.go_program import build_go
from tests.secured.cells import CELLS, USER, Cell, Credentials
from tests.secured.clients import (
    allowed_token,
    by_aiokafka,
    by_librdkafka,
    go_cell,
    java_file,
    java_properties,
    librdkafka_properties,
)
from tests.secured.server import SecuredServer
from tests.servers.admin import SILENT

pytestmark = pytest.mark.kafka

cells = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredServer]:
    with SecuredServer(tmp_path_factory.mktemp("server"), credentials) as server:
        server.create_user()
        yield server


def prepared(server: SecuredServer, client: str, cell: Cell) -> tuple[str, str]:
    """A topic of the cell, and a group that begins at its start."""
    name = f"{client}-{cell.name}"
    server.prepare(name)
    return name, name


@cells
def test_ours(server: SecuredServer, credentials: Credentials, cell: Cell) -> None:
    topic, group = prepared(server, "ours", cell)
    settings = java_properties(cell, credentials)
    if cell.mechanism == "OAUTHBEARER":
        settings["sasl.oauthbearer.token.endpoint.url"] = credentials.token_file().as_uri()
    with sync.Producer(server.at(cell.listener), security=settings) as producer:
        producer.send(topic, b"ours")
    with sync.ShareConsumer(
        topic, group_id=group, bootstrap_servers=server.at(cell.listener), security=settings
    ) as consumer:
        assert [record.value for record in consumer.poll(timeout_ms=120_000)] == [b"ours"]
        assert set(consumer.commit().values()) == {None}


@cells
def test_librdkafka(server: SecuredServer, credentials: Credentials, cell: Cell) -> None:
    topic, group = prepared(server, "librdkafka", cell)
    by_librdkafka(cell, server.at(cell.listener), topic, group, credentials)


@cells
def test_aiokafka(server: SecuredServer, credentials: Credentials, cell: Cell) -> None:
    topic, _ = prepared(server, "aiokafka", cell)
    by_aiokafka(cell, server.at(cell.listener), topic, credentials)


@pytest.fixture(scope="module")
def said_by_java(
    server: SecuredServer, credentials: Credentials, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Cell → what came of it; one run for all."""
    folder = tmp_path_factory.mktemp("java")
    classes = compile_java(
        Path(__file__).parents[1] / "foreign" / "java" / "SecuredWork.java", folder
    )
    for cell in CELLS:
        topic, group = prepared(server, "java", cell)
        own = {"work.topic": topic, "work.group": group}
        own["bootstrap.servers"] = server.at(cell.listener)
        java_file(folder / cell.name, cell, credentials, own)
    allowed = allowed_token(credentials)
    done = subprocess.run(
        [
            *(java_command(), *SHORT_RUN, QUIET, allowed, "-cp", classes, "SecuredWork"),
            *(str(folder / cell.name) for cell in CELLS),
        ],
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {Path(file).name: outcome for file, outcome in rows}


@cells
def test_java(said_by_java: dict[str, str], cell: Cell) -> None:
    assert said_by_java[cell.name] == "ok"


@pytest.fixture(scope="module")
def said_by_go(
    server: SecuredServer, credentials: Credentials, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Cell → what came of it; one run for all."""
    folder = tmp_path_factory.mktemp("go")
    program = build_go(folder)
    told = [
        go_cell(cell, server.at(cell.listener), *prepared(server, "go", cell), credentials)
        for cell in CELLS
    ]
    (folder / "cells.json").write_text(json.dumps(told))
    done = subprocess.run(
        [str(program), "secured", str(folder / "cells.json")],
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = map(json.loads, done.stdout.splitlines())
    return {event["name"]: event["outcome"] for event in events}


@cells
@pytest.mark.timeout(1000)
def test_franz_go(said_by_go: dict[str, str], cell: Cell) -> None:
    assert said_by_go[cell.name] == "ok"


def test_a_quota_holds_for_the_user_who_has_logged_in(
    server: SecuredServer, credentials: Credentials
) -> None:
    """Whatever its client id is, and not for others."""
    topic, _ = prepared(server, "quota", Cell("SASL_SSL", "PLAIN"))
    throttled = {}
    with sync.Admin(server.at("PLAINTEXT")) as admin:
        admin.alter_client_quotas({"user": USER}, {"producer_byte_rate": 100_000})
    for cell in (Cell("SASL_SSL", "SCRAM-SHA-512"), Cell("SSL")):
        told: list[ThrottleEvent] = []
        settings = librdkafka_properties(cell, credentials)
        producer = Producer(
            {
                "bootstrap.servers": server.at(cell.listener),
                "throttle_cb": told.append,
                **settings,
                **SILENT,
            }
        )
        for _ in range(12):
            producer.produce(topic, bytes(100_000))
            assert producer.flush(60) == 0
        producer.poll(0)
        throttled[cell.listener] = bool(told)
    with sync.Admin(server.at("PLAINTEXT")) as admin:
        admin.alter_client_quotas({"user": USER}, {"producer_byte_rate": None})
    assert throttled == {"SASL_SSL": True, "SSL": False}
