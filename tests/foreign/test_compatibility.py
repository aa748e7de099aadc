"""docs/compatibility.md says the truth: about Apache Kafka's APIs, ours, and the clients' tests."""

from __future__ import annotations

import csv
import socket
import struct
from pathlib import Path

import pytest

from scripts import docs_compatibility
from sharegroup.wire.codec import decode
from sharegroup.wire.messages.api_versions import ApiVersionsResponse
from tests.apache_kafka.broker import KafkaBroker
from tests.servers.process import HOST
from tests.servers.running import RunningServer

FOLDER = Path(__file__).parent
PRODUCE, API_VERSIONS = 0, 18


def test_the_page_is_up_to_date() -> None:
    assert docs_compatibility.PAGE.read_text() == docs_compatibility.page()


def test_what_is_not_served_has_a_reason_and_nothing_else() -> None:
    apis = docs_compatibility.kafka_apis()
    gaps = {
        api.name
        for api in apis
        if api.by_brokers and docs_compatibility.served(api.key) != api.versions
    }
    assert {api.name for api in apis if api.why_not} == gaps


def test_every_file_of_tests_is_named() -> None:
    named = {name for work in docs_compatibility.works() for name in work.tests}
    assert named == {path.name for path in FOLDER.glob("test_*.py")} - {Path(__file__).name}


def test_every_program_run_by_hand_is_there() -> None:
    with docs_compatibility.BY_HAND.open(newline="") as file:
        programs = {row["program"] for row in csv.DictReader(file)} - {""}
    kept = {path for path in (FOLDER / "by_hand").rglob("*") if path.suffix in (".go", ".js")}
    assert {FOLDER / "by_hand" / name for name in programs} == kept


@pytest.mark.process
def test_we_tell_what_we_serve(broker: RunningServer) -> None:
    told = versions_told(int(broker.bootstrap.rpartition(":")[2]))
    # librdkafka up to 2.8 compresses nothing for a broker that does not tell produce 0.
    assert told.pop(PRODUCE) == (0, 13)
    apis = {api.key: docs_compatibility.served(api.key) for api in docs_compatibility.kafka_apis()}
    assert told == {key: found for key, found in apis.items() if found and key != PRODUCE}


def versions_told(port: int) -> dict[int, tuple[int, int]]:
    """What a broker answers to ApiVersions 0."""
    with socket.create_connection((HOST, port), timeout=120) as connection:
        request = struct.pack(">hhih", API_VERSIONS, 0, 1, -1)  # the client has no name
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read(size)
    response = decode(ApiVersionsResponse, 0, answer[4:])  # behind the correlation id
    assert response.error_code == 0
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@pytest.mark.kafka
def test_kafkas_versions_are_those_that_it_tells(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path) as kafka:
        told = versions_told(kafka.port)
    # It tells produce from 0 on, for old clients, and refuses 0 to 2: as we do.
    assert told[PRODUCE] == (0, 13)
    told[PRODUCE] = (3, 13)
    telemetry = {71, 72}  # told only with a plugin that collects it
    assert telemetry.isdisjoint(told)
    apis = {api.key: api.versions for api in docs_compatibility.kafka_apis() if api.by_brokers}
    assert told == {key: found for key, found in apis.items() if key not in telemetry}
