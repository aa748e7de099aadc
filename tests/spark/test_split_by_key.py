"""``splitBy=key``: all records of a key in one task of a batch, in the order of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from sharegroup.client import Admin as OwnAdmin
from tests.servers.admin import SILENT, Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import all_done, source_options

pytestmark = pytest.mark.spark

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS, KEYS, PER_CODEC, TASKS = 4, 40, 800, 8
COUNT = PER_CODEC * len(CODECS)


class Record(NamedTuple):
    """A record where a task has it; its value is its number."""

    number: int
    key: str | None
    partition: int
    task: int


Batches = dict[int, list[Record]]


def is_keyed(number: int) -> bool:
    return number % 3 != 0


@pytest.fixture
def filled(server: RunningServer, topic: str) -> str:
    """Batches of every codec; a key's records are in one partition, each third has no key."""
    for at, codec in enumerate(CODECS):
        producer = Producer(
            {"bootstrap.servers": server.bootstrap, "compression.type": codec, **SILENT}
        )
        for number in range(at * PER_CODEC, (at + 1) * PER_CODEC):
            key = f"k{number % KEYS}" if is_keyed(number) else None
            producer.produce(topic, str(number), key=key, partition=number % PARTITIONS)
        assert producer.flush(30) == 0
    return topic


def run(
    spark: SparkSession,
    options: dict[str, str],
    checkpoint: Path,
    check: Callable[[int, list[Record]], None],
) -> None:
    """One query up to the end of the topic; ``check`` gets each batch, task by task."""

    def collect(rows: DataFrame, batch_id: int) -> None:
        found = rows.withColumn("task", spark_partition_id()).selectExpr(
            "INT(STRING(value))", "STRING(key)", "partition", "task"
        )
        check(batch_id, [Record(*row) for row in found.collect()])

    query = (
        spark.readStream.format("kafka-share")
        .options(**options)
        .load()
        .writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(collect)
        .start()
    )
    assert query.awaitTermination(800), "the query did not end"


def of_key(batches: Batches) -> dict[str, list[int]]:
    """The numbers of each key, in the order in which tasks have them, batch after batch."""
    found: dict[str, list[int]] = {}
    for _, records in sorted(batches.items()):
        for one in records:
            if one.key is not None:
                found.setdefault(one.key, []).append(one.number)
    return found


def produced_of_key() -> dict[str, list[int]]:
    numbers = filter(is_keyed, range(COUNT))
    found: dict[str, list[int]] = {}
    for number in numbers:
        found.setdefault(f"k{number % KEYS}", []).append(number)
    return found


def assert_one_task_for_each_key(records: list[Record]) -> None:
    tasks: dict[str, set[int]] = {}
    for one in records:
        if one.key is not None:
            tasks.setdefault(one.key, set()).add(one.task)
    assert {key: found for key, found in tasks.items() if len(found) > 1} == {}


def test_each_key_is_in_one_task_in_order_and_nulls_spread(
    spark: SparkSession, server: RunningServer, filled: str, tmp_path: Path
) -> None:
    batches: Batches = {}
    options = source_options(server, filled, splitBy="key", minPartitions=str(TASKS))
    run(spark, options, tmp_path / "checkpoint", batches.__setitem__)
    for records in batches.values():
        assert_one_task_for_each_key(records)
    everything = [one for records in batches.values() for one in records]
    assert sorted(one.number for one in everything) == list(range(COUNT))
    assert of_key(batches) == produced_of_key()
    for partition in range(PARTITIONS):
        nulls = {one.task for one in everything if one.key is None and one.partition == partition}
        assert len(nulls) > 1
    assert all_done(server, filled)


def test_a_batch_that_runs_again_has_the_same_tasks_and_nothing_is_lost(
    spark: SparkSession, server: RunningServer, filled: str, tmp_path: Path
) -> None:
    batches: Batches = {}
    failed: list[list[Record]] = []

    def fail_once(batch_id: int, records: list[Record]) -> None:
        if batch_id == 1 and not failed:
            failed.append(records)
            raise RuntimeError("batch 1 fails")
        batches[batch_id] = records

    options = source_options(
        server, filled, splitBy="key", minPartitions=str(TASKS), maxOffsetsPerTrigger="900"
    )
    with pytest.raises(StreamingQueryException, match="batch 1 fails"):
        run(spark, options, tmp_path / "checkpoint", fail_once)
    run(spark, options, tmp_path / "checkpoint", fail_once)
    assert batches[1] == failed[0]
    numbers = sorted(one.number for records in batches.values() for one in records)
    assert numbers == list(range(COUNT))
    assert of_key(batches) == produced_of_key()
    assert all_done(server, filled)


def allow_range_fetch(server: RunningServer, topic: str) -> None:
    async def ask() -> None:
        async with OwnAdmin(server.bootstrap) as client:
            await client.alter_configs("topic", topic, {"accept.range.fetch": "true"})

    asyncio.run(ask())


@pytest.mark.parametrize("server", [SharegroupServer], indirect=True, ids=["sharegroup"])
def test_with_order_in_the_group_and_a_broker_that_filters(
    spark: SparkSession, server: RunningServer, filled: str, tmp_path: Path
) -> None:
    """Apache Kafka has neither."""
    Admin(server.bootstrap).set_group(
        filled, share_ordering="key", share_ordering_key_max_in_flight="30"
    )
    allow_range_fetch(server, filled)
    batches: Batches = {}
    options = source_options(server, filled, splitBy="key", minPartitions=str(TASKS))
    run(spark, options, tmp_path / "checkpoint", batches.__setitem__)
    assert len(batches) > 1
    for records in batches.values():
        assert_one_task_for_each_key(records)
    assert of_key(batches) == produced_of_key()
    assert all_done(server, filled)
