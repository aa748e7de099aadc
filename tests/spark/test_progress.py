"""Numbers of a query in real Spark: what is shown is settled. And: a sink's mistakes show before
records are acquired.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sharegroup.spark.report.checkpoint import read_checkpoint
from sharegroup.spark.report.findings import findings
from tests.servers.admin import Admin, produce
from tests.servers.query_reports import reports
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "h_listener.py"
RECORDS = 500
WAIT_SECONDS = 400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


def test_a_listener_sees_everything_settled_at_the_end(
    broker: SharegroupServer, tmp_path: Path
) -> None:
    Admin(broker.bootstrap).create_topic("jobs", partitions=2)
    produce(broker.bootstrap, "jobs", [b"%d" % n for n in range(RECORDS)])
    kept = ("PATH", "JAVA_HOME", "SPARK_SUBMIT_OPTS")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--bootstrap-server", broker.bootstrap, "--too-many", "-1"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    told = [line for line in lines if line.startswith("batch ")]
    assert told[0].startswith("batch 0: 200 rows, accepted 0, redelivered 0, lag ")
    assert told[1].startswith("batch 1: 200 rows, accepted 200, redelivered 0, lag ")
    assert told[-1] == "batch 3: 0 rows, accepted 500, redelivered 0, lag 0"
    [end] = [line for line in lines if line.startswith("at the end: ")]
    report = json.loads(end.removeprefix("at the end: "))
    assert (report["accepted"], report["lag"], report["inFlight"]) == (RECORDS, 0, 0)
    assert any(line.startswith("the queue is long: {'jobs-") for line in lines)

    told_console = asyncio.run(reports(broker.bootstrap))
    assert [one.state for one in told_console] == ["running"] * 5 + ["ended"]
    assert told_console[-1].groups["listened-to"]["accepted"] == RECORDS
    assert (told_console[-1].name, told_console[-1].batch, told_console[-2].rows) == ("jobs", 3, 0)

    checkpoint = read_checkpoint(tmp_path / "listener-checkpoint")
    assert [batch.records for batch in checkpoint.batches] == [200, 200, 100, 0]
    assert checkpoint.batches[-1].lag == 0
    assert sum(batch.number_of("accepted") or 0 for batch in checkpoint.batches) == RECORDS
    an_hour_later = (checkpoint.batches[-1].finished_at or 0) + 3_600
    assert findings(checkpoint, an_hour_later) == []


@pytest.mark.parametrize(
    ("columns", "with_folder", "sentence"),
    [
        (("topic", "partition", "offset", "'accept' AS ack"), False, "ackLocation is missing"),
        (("topic", "partition", "'accept' AS ack"), True, "the column offset is missing"),
    ],
    ids=["no-folder", "no-column"],
)
def test_sink_errors_appear_before_records_are_acquired(
    spark: SparkSession,
    broker: SharegroupServer,
    name: str,
    tmp_path: Path,
    columns: tuple[str, ...],
    with_folder: bool,
    sentence: str,
) -> None:
    Admin(broker.bootstrap).create_topic(name)
    produce(broker.bootstrap, name, [b"1", b"2"])
    acks, checkpoint = str(tmp_path / "acks"), str(tmp_path / "checkpoint")
    options = source_options(broker, name, ackLocation=acks)
    rows = spark.readStream.format("kafka-share").options(**options).load()
    wrong = rows.selectExpr(*columns).writeStream.format("kafka-share")
    wrong = wrong.options(**({"ackLocation": acks} if with_folder else {}))
    query = wrong.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=sentence):
        query.awaitTermination(WAIT_SECONDS)
    assert lags(broker, name) == []  # the group was never there

    right = rows.selectExpr("topic", "partition", "offset", "'accept' AS ack")
    writer = right.writeStream.format("kafka-share").option("ackLocation", acks)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_SECONDS)
    assert query.exception() is None
    assert sum(progress.numInputRows for progress in query.recentProgress) == 2
    assert lags(broker, name) == [0]
