"""Cases of ``df.write`` and ``df.writeStream``."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sharegroup import sync
from tests.spark.every_option.work import PARTITIONS, SECONDS, SERVERS, Work

HEADERS = "array(named_struct('key', 'trace', 'value', binary('1')))"


def rows(work: Work, *more: str) -> DataFrame:
    """Ten rows as the sink takes them."""
    key = "CAST(id AS STRING) AS key"
    return work.spark.range(10).selectExpr(key, "concat('r', id) AS value", *more)


def every_setting_of_the_producer(work: Work) -> None:
    topic = work.topic()
    given = {
        SERVERS: work.bootstrap,
        "topic": topic,
        "includeHeaders": "true",
        "kafka.client.id": "a-sink",
        "kafka.request.timeout.ms": "20000",
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "zstd",
        "kafka.batch.size": "4096",
        "kafka.linger.ms": "1",
        "kafka.max.request.size": "65536",
        "kafka.buffer.memory": "1000000",
        "kafka.delivery.timeout.ms": "30000",
        "kafka.max.block.ms": "30000",
    }
    writer = work.sink(rows(work, f"{HEADERS} AS headers").write.mode("append"), given)
    writer.save()
    found = {record.key(): record for record in work.records(topic, 10)}
    assert found[b"3"].value() == b"r3"
    assert all(record.headers() == [("trace", b"1")] for record in found.values())


def headers_that_are_left_out(work: Work) -> None:
    topic = work.topic()
    given = {SERVERS: work.bootstrap, "topic": topic, "includeHeaders": "false"}
    work.sink(rows(work, f"{HEADERS} AS headers").write.mode("append"), given).save()
    assert all(record.headers() is None for record in work.records(topic, 10))


def a_record_that_is_too_large(work: Work) -> None:
    given = {SERVERS: work.bootstrap, "topic": work.topic(), "kafka.max.request.size": "1000"}
    large = work.spark.range(1).selectExpr("repeat('x', 2000) AS value")
    with pytest.raises(PySparkException, match=r"1,?000"):
        work.sink(large.write.mode("append"), given).save()


def answers_and_results_of_a_stream(work: Work) -> None:
    topic, results, answers = work.topic(10), work.topic(), work.folder()
    given = {"startingOffsets": "earliest", "ackLocation": answers, "includeHeaders": "true"}
    records = work.stream(work.options(topic, **given))
    columns = ("topic", "partition", "offset", "key", "value", "headers", "'accept' AS ack")
    writer = records.selectExpr(*columns).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", work.folder())
    sink = {SERVERS: work.bootstrap, "ackLocation": answers, "topic": results}
    sink["createTopics"] = "false"
    assert work.sink(writer, sink).start().awaitTermination(SECONDS)
    assert sorted(record.value() for record in work.records(results, 10)) == [
        b"r%03d" % number for number in range(10)
    ]
    with sync.Admin(work.bootstrap) as admin:
        lags = [state.lag for state in admin.list_share_group_offsets(topic).values()]
    assert lags == [0] * PARTITIONS


CASES = (
    every_setting_of_the_producer,
    headers_that_are_left_out,
    a_record_that_is_too_large,
    answers_and_results_of_a_stream,
)
