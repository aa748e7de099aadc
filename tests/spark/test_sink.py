"""The sink in real Spark, on our broker and on Apache Kafka."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array, explode, expr, lit
from pyspark.sql.streaming import StreamingQuery

from sharegroup.spark import acknowledge
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options
from tests.spark.readers import until
from tests.spark.reading import drained
from tests.spark.topic_records import Record, records_of

pytestmark = pytest.mark.spark

WAIT_SECONDS = 400
BY_RULE = """CASE int(string(value)) % 10
    WHEN 0 THEN 'reject'
    WHEN 1 THEN IF(delivery_count = 1, 'release', 'accept')
    ELSE 'accept' END"""
"""Of ten records one is rejected, and one is accepted at the second time only."""


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def run(query: StreamingQuery) -> None:
    """Wait for the end of an availableNow query."""
    assert query.awaitTermination(WAIT_SECONDS), "the query did not end"
    assert query.exception() is None


class Place:
    """Where a query reads, keeps its checkpoint, and hands over its decisions."""

    def __init__(self, spark: SparkSession, server: RunningServer, topic: str, folder: Path):
        self.spark, self.server, self.topic = spark, server, topic
        self.acks = str(folder / "acks")
        self.checkpoint = str(folder / "checkpoint")

    def rows(self, **more: str) -> DataFrame:
        options = source_options(self.server, self.topic, ackLocation=self.acks, **more)
        return self.spark.readStream.format("kafka-share").options(**options).load()

    def write(self, rows: DataFrame, **options: str) -> Any:
        writer = rows.writeStream.format("kafka-share").trigger(availableNow=True)
        return writer.option("checkpointLocation", self.checkpoint).options(**options)

    def lag(self) -> int:
        return sum(one or 0 for one in lags(self.server, self.topic))


@pytest.fixture
def place(spark: SparkSession, server: RunningServer, topic: str, tmp_path: Path) -> Place:
    return Place(spark, server, topic, tmp_path)


def test_each_record_gets_its_answer_and_its_result(place: Place, name: str) -> None:
    admin.produce(place.server.bootstrap, place.topic, values(600))
    results = f"{name}-results"
    admin.Admin(place.server.bootstrap).create_topic(results, partitions=2)
    answered = place.rows(maxOffsetsPerTrigger="400").select(
        "topic",
        "partition",
        "offset",
        expr(BY_RULE).alias("ack"),
        expr("concat('r', string(value), '/', delivery_count)").alias("value"),
    )
    servers = {"kafka.bootstrap.servers": place.server.bootstrap}
    run(place.write(answered, ackLocation=place.acks, topic=results, **servers).start())
    expected = Counter(b"r%d/1" % n for n in range(600))
    expected.update(b"r%d/2" % n for n in range(1, 600, 10))
    found = records_of(place.server, results, expected.total())
    assert Counter(record.value for record in found) == expected
    until(lambda: place.lag() == 0)


def test_foreach_batch_writes_a_table_and_acknowledges_in_two_calls(
    place: Place, spark: SparkSession, tmp_path: Path
) -> None:
    admin.produce(place.server.bootstrap, place.topic, values(100))
    table = str(tmp_path / "table")

    def work(batch: DataFrame, batch_id: int) -> None:
        answered = batch.withColumn("ack", expr(BY_RULE)).persist()
        done = answered.where("ack != 'release'")
        done.select("value", "ack").write.mode("append").parquet(table)
        acknowledge(done, place.acks)
        acknowledge(answered.where("ack = 'release'"), place.acks)
        answered.unpersist()

    writer = place.rows().writeStream.foreachBatch(work).trigger(availableNow=True)
    run(writer.option("checkpointLocation", place.checkpoint).start())
    found = Counter((bytes(row.value), row.ack) for row in spark.read.parquet(table).collect())
    assert found == Counter((b"%d" % n, "reject" if n % 10 == 0 else "accept") for n in range(100))
    until(lambda: place.lag() == 0)


def test_a_batch_of_rows_goes_to_a_topic(
    spark: SparkSession, server: RunningServer, topic: str
) -> None:
    rows = spark.createDataFrame(
        [("k", "one", topic, 3, [("h", bytearray(b"x"))]), (None, "two", topic, 1, None)],
        "key string, value string, topic string, partition int, "
        "headers array<struct<key: string, value: binary>>",
    )
    writer = rows.write.format("kafka-share").mode("append")
    writer.option("kafka.bootstrap.servers", server.bootstrap).save()
    assert sorted(records_of(server, topic, 2), key=lambda record: record.partition) == [
        Record(None, b"two", (), 1),
        Record(b"k", b"one", (("h", b"x"),), 3),
    ]


def test_headers_survive_a_round_trip(
    spark: SparkSession, server: RunningServer, topic: str
) -> None:
    """Duplicate keys, their order, null and empty values; a record without headers has null."""
    many = [("a", bytearray(b"x")), ("b", None), ("a", bytearray()), ("a", bytearray(b"y"))]
    rows = spark.createDataFrame(
        [("many", many), ("empty", []), ("none", None)],
        "value string, headers array<struct<key: string, value: binary>>",
    )
    writer = rows.coalesce(1).write.format("kafka-share").mode("append").option("topic", topic)
    writer.option("kafka.bootstrap.servers", server.bootstrap).save()
    found = drained(source_options(server, topic, includeHeaders="true"), "value", "headers")
    assert {row["value"]: row["headers"] for row in found} == {
        b"many": [{"key": key, "value": value} for key, value in many],
        b"empty": None,
        b"none": None,
    }


def test_a_contradiction_fails_the_query_and_nothing_is_acknowledged(
    spark: SparkSession, tmp_path: Path
) -> None:
    with SharegroupServer(tmp_path / "broker") as server:
        admin.Admin(server.bootstrap).create_topic("jobs")
        admin.produce(server.bootstrap, "jobs", values(4))
        place = Place(spark, server, "jobs", tmp_path)
        ids = place.rows().select("topic", "partition", "offset")
        twice = ids.withColumn("ack", explode(array(lit("accept"), lit("reject"))))
        wrong = place.write(twice, ackLocation=place.acks).start()
        with pytest.raises(PySparkException, match="is to be both accept and reject"):
            wrong.awaitTermination(WAIT_SECONDS)
        run(place.write(ids.withColumn("ack", lit(3)), ackLocation=place.acks).start())
        until(lambda: place.lag() == 0)
