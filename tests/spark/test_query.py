"""Whole queries in real Spark, on our broker and on Apache Kafka."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sharegroup import Admin
from sharegroup.spark.report.checkpoint import read_checkpoint
from sharegroup.spark.report.findings import findings
from sharegroup.spark.report.picture import draw
from sharegroup.spark.report.queue import Queue, ask
from tests.servers.admin import produce
from tests.servers.running import RunningServer
from tests.spark.conftest import lags, source_options, wait_for

pytestmark = pytest.mark.spark

RECORDS = 5_000
WAIT_SECONDS = 400


def values(first: int, count: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


class Sink:
    """``foreachBatch`` into one file per batch id: a batch that runs again replaces itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def write(self, rows: DataFrame, batch_id: int) -> None:
        found = rows.select("value", "delivery_count").collect()
        text = "\n".join(f"{row.value.decode()} {row.delivery_count}" for row in found)
        (self.folder / f"{batch_id}.txt").write_text(text)

    def values(self) -> Counter[bytes]:
        texts = [file.read_text() for file in self.folder.glob("*.txt")]
        lines = [line for text in texts for line in text.splitlines()]
        return Counter(line.split()[0].encode() for line in lines)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "sink")


Start = Callable[..., StreamingQuery]


@pytest.fixture
def start(spark: SparkSession, server: RunningServer, topic: str, tmp_path: Path) -> Start:
    """Start a query over the topic, always with the same checkpoint."""

    def started(write: Any, *, once: bool, **more: str) -> StreamingQuery:
        rows = (
            spark.readStream.format("kafka-share")
            .options(**source_options(server, topic, **more))
            .load()
        )
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        if once:
            writer = writer.trigger(availableNow=True)
        return writer.foreachBatch(write).start()

    return started


def run(query: StreamingQuery) -> None:
    """Wait for the end of an availableNow query."""
    assert query.awaitTermination(WAIT_SECONDS), "the query did not end"
    assert query.exception() is None


def test_available_now_reads_every_record_once_and_leaves_no_lag(
    start: Start, sink: Sink, server: RunningServer, topic: str
) -> None:
    produce(server.bootstrap, topic, values(0, RECORDS))
    run(start(sink.write, once=True, maxOffsetsPerTrigger="2000"))
    assert sink.values() == Counter(values(0, RECORDS))
    assert len(list(sink.folder.iterdir())) >= 3
    assert lags(server, topic) == [0, 0, 0, 0]

    run(start(sink.write, once=True))  # nothing new: no batch, no rows
    assert sink.values() == Counter(values(0, RECORDS))
    produce(server.bootstrap, topic, values(RECORDS, 10))
    run(start(sink.write, once=True))
    assert sink.values() == Counter(values(0, RECORDS + 10))


def test_a_stopped_query_continues_where_it_was(
    start: Start, sink: Sink, server: RunningServer, topic: str
) -> None:
    produce(server.bootstrap, topic, values(0, RECORDS))
    query = start(sink.write, once=False, maxOffsetsPerTrigger="500")
    wait_for(sink.folder, "*.txt", 3)
    query.stop()
    run(start(sink.write, once=True))
    assert sink.values() == Counter(values(0, RECORDS))
    assert lags(server, topic) == [0, 0, 0, 0]


def test_a_batch_that_fails_runs_again_with_the_same_records(
    start: Start, sink: Sink, server: RunningServer, topic: str
) -> None:
    produce(server.bootstrap, topic, values(0, 1_000))
    seen: list[list[tuple[int, int]]] = []

    def failing(rows: DataFrame, batch_id: int) -> None:
        seen.append(sorted((r.partition, r.offset) for r in rows.collect()))
        raise ValueError("the sink is broken")

    query = start(failing, once=True)
    with pytest.raises(PySparkException, match="the sink is broken"):
        query.awaitTermination(WAIT_SECONDS)

    def working(rows: DataFrame, batch_id: int) -> None:
        seen.append(sorted((r.partition, r.offset) for r in rows.collect()))
        sink.write(rows, batch_id)

    run(start(working, once=True))
    assert seen[0] == seen[1]
    assert sink.values() == Counter(values(0, 1_000))
    assert lags(server, topic) == [0, 0, 0, 0]


def test_records_that_come_while_the_query_runs(
    start: Start, sink: Sink, server: RunningServer, topic: str
) -> None:
    query = start(sink.write, once=False)
    for wave in range(3):
        produce(server.bootstrap, topic, values(100 * wave, 100))
        wait_for(sink.folder, "*.txt", wave + 1)
    query.processAllAvailable()
    query.stop()
    assert sink.values() == Counter(values(0, 300))


def test_one_partition_is_read_by_many_tasks(
    spark: SparkSession, start: Start, server: RunningServer, topic: str
) -> None:
    produce(server.bootstrap, topic, values(0, 400), partition=0)
    tasks: list[int] = []

    def count_tasks(rows: DataFrame, batch_id: int) -> None:
        tasks.append(rows.rdd.getNumPartitions())

    run(start(count_tasks, once=True, maxRecordsPerPartition="50"))
    assert tasks == [8, 0]  # the last batch tells that the first is settled


def test_a_users_schema_chooses_columns(
    spark: SparkSession, server: RunningServer, topic: str, tmp_path: Path
) -> None:
    produce(server.bootstrap, topic, values(0, 10))
    rows = (
        spark.readStream.format("kafka-share")
        .schema("offset BIGINT, value BINARY")
        .options(**source_options(server, topic))
        .load()
    )
    query = rows.writeStream.trigger(availableNow=True).format("parquet")
    checkpoint = str(tmp_path / "checkpoint")
    run(query.option("checkpointLocation", checkpoint).start(str(tmp_path / "rows")))
    found = spark.read.parquet(str(tmp_path / "rows"))
    assert found.columns == ["offset", "value"]
    assert Counter(bytes(row.value) for row in found.collect()) == Counter(values(0, 10))


def test_a_query_that_stopped_is_seen_by_its_checkpoint_and_in_the_queue(
    spark: SparkSession, start: Start, server: RunningServer, topic: str, tmp_path: Path
) -> None:
    produce(server.bootstrap, topic, values(0, 300), partition=0)

    def failing_in_its_second_batch(rows: DataFrame, batch_id: int) -> None:
        rows.count()
        if batch_id == 1:
            raise ValueError("the sink is full")

    query = start(failing_in_its_second_batch, once=True, maxOffsetsPerTrigger="100")
    with pytest.raises(PySparkException, match="the sink is full"):
        query.awaitTermination(WAIT_SECONDS)

    found = read_checkpoint(tmp_path / "checkpoint")
    assert (found.groups, found.topics, found.unreadable) == ((topic,), (topic,), ())
    first, second = found.batches
    assert 0 < first.records <= 100
    assert first.run_s is not None
    assert (second.finished_at, second.run_s) == (None, None)

    async def asked() -> Queue:
        async with Admin(server.bootstrap) as admin:
            return await ask(admin, topic, found.topics)

    queue = asyncio.run(asked())
    assert queue.lag[f"{topic}-0"] == 300 - first.records
    sentences = findings(found, second.planned_at + 720, [queue])
    assert sentences[0].startswith(f"batch 1 holds {second.records:,} locks of {topic}-0 since 12 ")
    draw(tmp_path / "report.png", found)
    assert (tmp_path / "report.png").stat().st_size > 10_000

    given = source_options(server, topic, states="all", startingOffsets="earliest")
    look = spark.read.format("kafka-share").options(**given).load()
    assert look.columns[-3:] == ["state", "member_id", "lock_ms"]
    states = Counter(row.state for row in look.select("state").collect())
    assert states.pop("acknowledged") == first.records
    assert set(states) <= {"available", "acquired"}
    assert states.total() == 300 - first.records

    half = tmp_path / "checkpoint" / "offsets" / "1"
    half.write_bytes(half.read_bytes()[:-20])
    (only,) = read_checkpoint(tmp_path / "checkpoint").batches
    assert (only.number, only.records, only.run_s) == (0, first.records, first.run_s)
