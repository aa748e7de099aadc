"""A Spark query, unchanged, over a group with order per key (``share.ordering=key``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tests.servers.admin import SILENT, Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import all_done, source_options

pytestmark = pytest.mark.spark

COUNT, KEYS = 1_000, 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Apache Kafka has no order in share groups."""
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


def test_a_query_reads_each_key_in_order(
    spark: SparkSession, server: RunningServer, topic: str, tmp_path: Path
) -> None:
    Admin(server.bootstrap).set_group(
        topic, share_ordering="key", share_ordering_key_max_in_flight="50"
    )
    producer = Producer({"bootstrap.servers": server.bootstrap, **SILENT})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode(), key=str(number % KEYS).encode())
    assert producer.flush(30) == 0
    seen: list[int] = []
    sizes: list[int] = []

    def collect(rows: DataFrame, _: int) -> None:
        numbers = [int(bytes(row.value)) for row in rows.orderBy("partition", "offset").collect()]
        sizes.append(len(numbers))
        seen.extend(numbers)

    rows = spark.readStream.format("kafka-share").options(**source_options(server, topic)).load()
    query = (
        rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(collect)
        .start()
    )
    assert query.awaitTermination(800), "the query did not end"
    assert query.exception() is None
    assert len(sizes) > 1
    assert max(sizes) <= KEYS * 50
    for key in range(KEYS):
        assert [n for n in seen if n % KEYS == key] == list(range(key, COUNT, KEYS))
    assert all_done(server, topic)
