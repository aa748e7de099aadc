"""The sink in real Spark, on our broker and on Apache Kafka."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
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

pytestmark = pytest.mark.spark

WAIT_SECONDS = 120
BY_RULE = """CASE int(string(value)) % 10
    WHEN 0 THEN 'reject'
    WHEN 1 THEN IF(delivery_count = 1, 'release', 'accept')
    ELSE 'accept' END"""
"""Of ten records one is rejected, and one is accepted at the second time only."""


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def records_of(server: RunningServer, topic: str, count: int) -> list[Record]:
    """So many records of a topic, from its beginning; raises TimeoutError."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "none"})
    described = consumer.list_topics(topic, WAIT_SECONDS).topics[topic]
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in described.partitions])
    found: list[Record] = []
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while len(found) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} records are there")
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                headers = tuple(message.headers() or ())
                found.append(Record(message.key(), message.value(), headers, message.partition()))
    finally:
        consumer.close()
    return found


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
    admin.produce(place.server.bootstrap, place.topic, values(1_000))
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
    expected = Counter(b"r%d/1" % n for n in range(1_000))
    expected.update(b"r%d/2" % n for n in range(1, 1_000, 10))
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
        acknowledge(answered.where("ack = 'release'").withColumn("delay_ms", lit(1)), place.acks)
        answered.unpersist()

    writer = place.rows().writeStream.foreachBatch(work).trigger(availableNow=True)
    run(writer.option("checkpointLocation", place.checkpoint).start())
    if place.lag():  # what was held when the first run ended comes with a second
        run(writer.start())
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


def test_wrong_queries_fail_with_one_sentence_and_nothing_is_acknowledged(
    spark: SparkSession, tmp_path: Path
) -> None:
    with SharegroupServer(tmp_path / "broker") as server:
        admin.Admin(server.bootstrap).create_topic("jobs")
        admin.produce(server.bootstrap, "jobs", values(4))
        place = Place(spark, server, "jobs", tmp_path)
        ids = place.rows().select("topic", "partition", "offset")
        twice = ids.withColumn("ack", explode(array(lit("accept"), lit("reject"))))
        for frame, options, sentence in (
            (twice, {}, "is to be both accept and reject"),
            (ids, {}, "neither a column ack nor a column value"),
            (twice, {"asyncProgressTrackingEnabled": "true"}, "not support async progress"),
        ):
            writer = place.write(frame, ackLocation=place.acks, **options)
            with pytest.raises(PySparkException, match=sentence):
                writer.start().awaitTermination(WAIT_SECONDS)
        run(place.write(ids.withColumn("ack", lit(3)), ackLocation=place.acks).start())
        until(lambda: place.lag() == 0)
