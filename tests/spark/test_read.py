"""What a batch holds, on our broker and on Apache Kafka: whatever the records look like, and
whatever became of the log since they were acquired.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer

from sharegroup.client import Admin
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.data_source import ShareStreamReader
from sharegroup.spark.task.fetch import DataLoss
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.spark.conftest import lags, source_options
from tests.spark.reading import ALL, drained, reader_of, rows_between

pytestmark = pytest.mark.process

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_BATCH = 200


def produce_with(bootstrap: str, topic: str, codec: str) -> None:
    """Records of every shape, in batches of one codec."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, **admin.SILENT})
    for number in range(PER_BATCH):
        producer.produce(
            topic,
            key=None if number % 3 == 0 else b"key %d" % number,
            value=None if number % 5 == 0 else codec.encode() * 20,
            headers=[("codec", codec), ("nothing", None)][: number % 3],
            partition=0,
        )
    assert producer.flush(60) == 0


def test_batches_of_every_codec(server: RunningServer, topic: str) -> None:
    for codec in CODECS:
        produce_with(server.bootstrap, topic, codec)
    options = source_options(server, topic, includeHeaders="true")
    rows = drained(options, "offset", "key", "value", "headers")
    rows.sort(key=lambda row: row["offset"])
    assert [row["offset"] for row in rows] == list(range(len(CODECS) * PER_BATCH))
    for at, row in enumerate(rows):
        codec, number = CODECS[at // PER_BATCH], at % PER_BATCH
        assert row["key"] == (None if number % 3 == 0 else b"key %d" % number)
        assert row["value"] == (None if number % 5 == 0 else codec.encode() * 20)
        headers = [{"key": "codec", "value": codec.encode()}, {"key": "nothing", "value": None}]
        assert row["headers"] == (headers[: number % 3] or None)
    assert lags(server, topic)[0] == 0


def test_the_type_of_a_timestamp(server: RunningServer, name: str) -> None:
    for kind, expected in (("CreateTime", 0), ("LogAppendTime", 1)):
        topic = f"{name}-{kind}"
        admin.Admin(server.bootstrap).create_topic(topic, message_timestamp_type=kind)
        admin.produce(server.bootstrap, topic, [b"x"])
        options = source_options(server, topic, includeTimestampType="true")
        assert drained(options, "timestampType") == [{"timestampType": expected}]


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    async def ask() -> None:
        async with Admin(bootstrap) as client:
            await client.delete_records({TopicPartition(topic, 0): offset})

    asyncio.run(ask())


def acquired(
    reader: ShareStreamReader, bootstrap: str, topic: str, values: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A batch of the topic's only records."""
    for value in range(values):  # a batch of the log each
        admin.produce(bootstrap, topic, [b"%d" % value], partition=0)
    start = reader.initialOffset()
    end = start
    reader.prepareForTriggerAvailableNow()
    while end == start:
        end = reader.latestOffset(start, ALL)
    return start, end


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_of_a_batch_deleted_by_retention(
    server: RunningServer, topic: str, fail: str
) -> None:
    reader = reader_of(source_options(server, topic, failOnDataLoss=fail))
    try:
        start, end = acquired(reader, server.bootstrap, topic, 10)
        delete_before(server.bootstrap, topic, 7)
        if fail == "true":
            with pytest.raises(DataLoss, match=r'write \.option\("failOnDataLoss", "false"\)'):
                rows_between(reader, start, end)
            return
        assert [row["offset"] for row in rows_between(reader, start, end)] == [7, 8, 9]
        reader.commit(end)
        assert lags(server, topic)[0] == 0
    finally:
        reader.stop()


def test_a_recreated_topic_is_not_taken_for_the_old_one(server: RunningServer, topic: str) -> None:
    reader = reader_of(source_options(server, topic, failOnDataLoss="false"))
    strict = reader_of(source_options(server, topic))
    try:
        start, end = acquired(reader, server.bootstrap, topic, 3)
        tasks = reader.partitions(start, end)
        admin.Admin(server.bootstrap).delete_topic(topic)
        admin.Admin(server.bootstrap).create_topic(topic, partitions=4)
        admin.produce(server.bootstrap, topic, [b"new"] * 3, partition=0)
        assert [batch for task in tasks for batch in reader.read(task)] == []
        with pytest.raises(DataLoss, match="are no longer in the log"):
            list(strict.read(tasks[0]))
    finally:
        reader.stop()
