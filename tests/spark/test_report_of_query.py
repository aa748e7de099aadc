"""The picture of a real query, as it stopped in the middle of a batch."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sharegroup.model.errors import ConfigError
from sharegroup.spark.report.checkpoint import read_checkpoint
from sharegroup.spark.report.findings import findings
from sharegroup.spark.report.picture import draw
from sharegroup.spark.report.queue import ask
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.spark.conftest import source_options

pytestmark = pytest.mark.spark

RECORDS = 300
WAIT_SECONDS = 120


def stopped_in_its_second_batch(
    spark: SparkSession, server: RunningServer, topic: str, checkpoint: Path
) -> None:
    Admin(server.bootstrap).create_topic(topic, partitions=1)
    produce(server.bootstrap, topic, [b"%d" % n for n in range(RECORDS)])
    options = source_options(server, topic, maxOffsetsPerTrigger="100")

    def write(rows: DataFrame, batch: int) -> None:
        rows.count()
        if batch == 1:
            raise RuntimeError("the sink is full")

    stream = spark.readStream.format("kafka-share").options(**options).load()
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).foreachBatch(write).start()
    with pytest.raises(Exception, match="the sink is full"):
        query.awaitTermination(WAIT_SECONDS)


def test_a_query_that_stopped(
    spark: SparkSession, server: RunningServer, name: str, tmp_path: Path
) -> None:
    topic, folder = name, tmp_path / "checkpoint"
    stopped_in_its_second_batch(spark, server, topic, folder)
    found = read_checkpoint(folder)
    assert (found.groups, found.topics, found.unreadable) == ((topic,), (topic,), ())
    first, second = found.batches
    assert 0 < first.records <= 100
    assert first.run_s is not None
    assert (second.finished_at, second.run_s) == (None, None)

    queue = asyncio.run(ask(server.bootstrap, topic, found.topics))
    assert sum(queue.lag.values()) == RECORDS - first.records
    sentences = findings(found, second.planned_at + 720, [queue])
    assert sentences[0].startswith(f"batch 1 holds {second.records:,} locks ")
    assert "since 12 min and is not finished" in sentences[0]

    draw(tmp_path / "report.png", found)
    assert (tmp_path / "report.png").stat().st_size > 10_000

    copy = shutil.copytree(folder, tmp_path / "copy")
    half = copy / "offsets" / "1"
    half.write_bytes(half.read_bytes()[:-20])
    (only,) = read_checkpoint(copy).batches
    assert (only.number, only.records, only.run_s) == (0, first.records, first.run_s)
    shutil.rmtree(copy / "offsets")
    with pytest.raises(ConfigError, match="has no folder offsets"):
        read_checkpoint(copy)
