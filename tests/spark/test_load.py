"""Mistakes are found when a query is built, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.servers.process import free_port

pytestmark = pytest.mark.spark

GOOD = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.group.id": "g",
    "subscribe": "t",
}


def test_the_source_is_found_and_has_its_columns(spark: SparkSession) -> None:
    columns = spark.readStream.format("kafka-share").options(**GOOD).load().columns
    assert columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "delivery_count",
    ]
    more = spark.readStream.format("kafka-share").options(**GOOD, includeHeaders="true").load()
    assert more.columns[-2:] == ["headers", "delivery_count"]
    with_type = {**GOOD, "includeTimestampType": "true"}
    typed = spark.readStream.format("kafka-share").options(**with_type).load()
    assert typed.schema["timestampType"].dataType.simpleString() == "int"
    assert typed.columns[5:7] == ["timestamp", "timestampType"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"subscribe": None}, r'subscribe is missing: write .option\("subscribe"'),
        ({"startingOffsets": "middle"}, "write earliest or latest"),
        ({"maxOffsetPerTrigger": "7"}, "did you mean maxOffsetsPerTrigger"),
        ({"endingOffsets": "latest"}, r"availableNow=True"),
    ],
)
def test_a_wrong_option_fails_at_load(
    spark: SparkSession, changed: dict[str, str | None], sentence: str
) -> None:
    options = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    with pytest.raises(PySparkException, match=sentence):
        spark.readStream.format("kafka-share").options(**options).load()


@pytest.mark.parametrize(
    ("changed", "schema", "sentence"),
    [
        ({}, "value string", "kafka-share has no column value string"),
        ({"topic": "t"}, "value binary", "did you mean subscribe"),
    ],
)
def test_with_a_schema_of_the_users_own_a_mistake_shows_at_the_start(
    spark: SparkSession, changed: dict[str, str], schema: str, sentence: str, tmp_path: Path
) -> None:
    """Spark asks the source for nothing at ``load()`` then."""
    reader = spark.readStream.format("kafka-share").schema(schema)
    writer = reader.options(**GOOD, **changed).load().writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(PySparkException, match=sentence):
        query.awaitTermination(800)


def test_a_schema_may_leave_columns_out_and_reorder_them(spark: SparkSession) -> None:
    reader = spark.readStream.format("kafka-share").schema("offset bigint, value binary")
    assert reader.options(**GOOD).load().columns == ["offset", "value"]


def test_a_batch_read_suggests_the_right_options(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"\.option\(\"states\", \"all\"\)"):
        spark.read.format("kafka-share").options(**GOOD).load().collect()


def test_an_unreachable_broker_is_reported_within_ten_seconds(
    spark: SparkSession, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = {**GOOD, "kafka.bootstrap.servers": address}
    rows = spark.readStream.format("kafka-share").options(**options).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=f"no broker could be reached at {address}"):
        query.awaitTermination(800)
    assert query.exception() is not None
