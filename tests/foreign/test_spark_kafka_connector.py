"""Spark's own source and sink for Kafka (`spark-sql-kafka-0-10`): one program
(`spark_connector_program.py`) does all of it, on the PySpark that the connector belongs to.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.apache_kafka.jars import SPARK_CONNECTOR, SPARK_CONNECTOR_VERSION, jar_folder
from tests.servers.admin import Admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark import quick_start
from tests.spark.pyspark_versions import environment, folder

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "spark_connector_program.py"
SECONDS = 800  # far more than it takes: others may use the machine as well
PYSPARK = SPARK_CONNECTOR_VERSION.rpartition(".")[0]
# All else that the connector asks for is in PySpark.
NEEDED = ("commons-pool2", "kafka-clients", "spark-sql-kafka", "spark-token-provider-kafka")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program printed."""
    work = tmp_path_factory.mktemp("connector")
    found = sorted(jar_folder(SPARK_CONNECTOR).glob("*.jar"))
    jars = [str(jar) for jar in found if jar.name.startswith(NEEDED)]
    assert len(jars) == len(NEEDED), found
    quick_start.compile_once(folder(PYSPARK) / "pyspark")
    with SharegroupServer(work) as server:
        for topic in ("in", "out"):
            Admin(server.bootstrap).create_topic(topic, 2)
        done = subprocess.run(
            [sys.executable, str(PROGRAM), server.bootstrap, str(work), ",".join(jars)],
            env=environment(PYSPARK),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr[-4_000:]
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert last["spark"].startswith(f"{PYSPARK}.")
    return last


def values(count: int) -> list[str]:
    return sorted(f"v{number}" for number in range(count))


def test_a_batch_is_written_and_read(told: dict[str, Any]) -> None:
    assert told["batch"] == values(100)
    assert {row["topic"] for row in told["rows"]} == {"in"}
    assert {(row["header"], row["said"]) for row in told["rows"]} == {("from", "spark")}
    places = {(row["partition"], row["offset"]) for row in told["rows"]}
    sizes = [len([offset for at, offset in places if at == partition]) for partition in (0, 1)]
    assert sum(sizes) == 100
    assert places == {(at, offset) for at, size in enumerate(sizes) for offset in range(size)}


def test_offsets_and_times_bound_a_batch(told: dict[str, Any]) -> None:
    assert told["range"] == 2
    assert told["split"] >= 6
    assert told["after"] == 0


def test_a_stream_goes_on_from_its_checkpoint(told: dict[str, Any]) -> None:
    first, second = told["streams"]
    sizes = [progress["rows"] for progress in first]
    assert sum(sizes) == 100
    assert max(sizes) <= 60, "maxOffsetsPerTrigger holds"
    assert [progress["rows"] for progress in second] == [7]
    assert sum(second[-1]["end"]["in"].values()) == 107
    assert told["copied"] == values(107)
