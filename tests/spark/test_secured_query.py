"""A query over SASL_SSL, and a search for its password in all that Spark shows and keeps."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup import Producer
from tests.apache_kafka.secured import CANARY, PASSWORD, USER, SecuredKafka
from tests.servers.sharegroup_server import SOURCE

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
TOPIC = "secured"
VALUES = [b"one", b"two", b"three"]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


async def produce(kafka: SecuredKafka) -> None:
    security = kafka.properties("SASL_SSL", "SCRAM-SHA-512")
    async with Producer(kafka.address["SASL_SSL"], security=security) as producer:
        for value in VALUES:
            await producer.send(TOPIC, value)


def leaks(folder: Path) -> list[str]:
    """The files with the password."""
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and CANARY.encode() in file.read_bytes()
    ]


def test_a_secured_query_runs_and_its_password_is_found_nowhere(
    kafka: SecuredKafka, tmp_path: Path
) -> None:
    asyncio.run(produce(kafka))
    secret = PASSWORD.replace('"', '\\"')
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(kafka.files / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{secret}";',
    }
    (tmp_path / "properties.json").write_text(json.dumps(properties))
    program = [sys.executable, "-m", "tests.spark.secured_program"]
    done = subprocess.run(
        [*program, kafka.address["SASL_SSL"], TOPIC, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert leaks(tmp_path) == ["properties.json"]  # so the search finds it where it is
    (tmp_path / "properties.json").unlink()
    assert done.returncode == 0, done.stderr[-4000:]
    assert "states ['acknowledged', 'acknowledged', 'acknowledged']" in done.stdout
    assert "refused" in done.stdout
    assert "'DIGEST-MD5' is none of" in done.stdout
    assert done.stdout.count("refused the credentials for SCRAM-SHA-512") >= 2
    assert CANARY not in done.stdout
    assert CANARY not in done.stderr
    assert (tmp_path / "checkpoint" / "offsets" / "0").exists()
    assert (tmp_path / "StreamingQuery.html").exists()
    assert b"pyspark" in (tmp_path / "processes.txt").read_bytes()
    assert leaks(tmp_path) == []
