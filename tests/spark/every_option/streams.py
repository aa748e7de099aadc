"""Cases of ``spark.readStream``."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from sharegroup import sync
from sharegroup.model.ids import TopicPartition
from sharegroup.spark import acknowledge
from tests.spark.every_option.work import GROUP, PARTITIONS, SECONDS, SERVERS, Work

HOUR_MS = 3_600_000


def wait_until(condition: Callable[[], object]) -> None:
    """Return when it holds; raises TimeoutError."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        threading.Event().wait(0.05)


def headers_and_the_kind_of_timestamp(work: Work) -> None:
    topic = work.topic()
    work.produce(topic, "with", headers=[("trace", b"1"), ("empty", None)])
    work.produce(topic, "without")
    drained = work.drained(topic, includeHeaders="true", includeTimestampType="true")
    assert drained.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
        *("headers", "delivery_count"),
    ]
    found = {row.value: row for row in drained.rows}
    headers = [(one.key, one.value) for one in found[b"with"].headers]
    assert headers == [("trace", b"1"), ("empty", None)]
    assert found[b"without"].headers is None
    assert {(row.key, row.timestampType) for row in drained.rows} == {(b"k", 0)}


def headers_in_a_query_of_their_own_columns(work: Work) -> None:
    topic = work.topic()
    work.produce(topic, "a", headers=[("trace", b"1")])
    rows = work.stream(work.options(topic, startingOffsets="earliest", includeHeaders="TRUE"))
    traces = rows.select(f.explode("headers").alias("h")).where("h.key = 'trace'").select("h.value")
    output, checkpoint = work.folder(), work.folder()
    query = traces.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    assert query.trigger(availableNow=True).start(output).awaitTermination(SECONDS)
    assert [row.value for row in work.spark.read.parquet(output).collect()] == [b"1"]


def a_pattern_and_the_other_name_of_the_group(work: Work) -> None:
    topic = work.topic(4)
    options = {SERVERS: work.bootstrap, "kafka.share.group.id": topic, "subscribePattern": topic}
    assert len(work.run({**options, "startingOffsets": "earliest"}).rows) == 4


def a_new_group_begins_at_a_time(work: Work) -> None:
    topic = work.topic()
    now = time.time_ns() // 1_000_000
    work.produce(topic, "old-0", "old-1", timestamp=now - HOUR_MS)
    work.produce(topic, "new-0", "new-1", timestamp=now)
    options = work.options(topic, startingTimestamp=str(now - 1))
    assert work.run(options).values() == ["new-0", "new-1"]


def configs_of_the_group(work: Work) -> None:
    topic = work.topic()
    for _ in range(8):  # whole batches are handed out: of fifty records each
        work.produce(topic, *["x"] * 50 * PARTITIONS)
    locks = {"recordLocksPerPartition": "150", "isolationLevel": "read_committed"}
    drained = work.drained(topic, prefetch="false", **locks)
    assert len(drained.rows) == 800
    assert max(len(batch) for batch in drained.batches) <= 150 * PARTITIONS
    with sync.Admin(work.bootstrap) as admin:
        configs = admin.describe_configs("group", topic)
    assert configs["share.isolation.level"].value == "read_committed"
    assert configs["share.partition.wide.record.locks"].value == "150"


def the_bounds_of_a_batch(work: Work) -> None:
    topic = work.topic(90)
    drained = work.drained(topic, maxOffsetsPerTrigger="30", prefetch="false", lockRenew="false")
    assert len(drained.rows) == 90
    assert max(len(batch) for batch in drained.batches) <= 30
    assert {numbers["renewed"] for numbers in drained.progress} == {0}


def the_bounds_of_what_is_held(work: Work) -> None:
    topic = work.topic(90)
    drained = work.drained(topic, maxAcquiredRecords="40", prefetch="true", lockRenew="true")
    assert len(drained.rows) == 90
    assert max(len(batch) for batch in drained.batches) <= 40


def the_bytes_of_what_is_held(work: Work) -> None:
    topic = work.topic()
    for _ in range(5):
        work.produce(topic, *["x" * 10_000] * PARTITIONS)
    drained = work.drained(topic, maxAcquiredBytes="45000")
    assert len(drained.rows) == 5 * PARTITIONS
    assert len(drained.batches) > 1


def lost_locks(work: Work) -> None:
    topic, checkpoint = work.topic(10), work.folder()
    assert len(work.drained(topic, checkpoint).rows) == 10
    outcomes = {}
    for choice in ("process", "drop"):
        work.runs_again(checkpoint)
        outcomes[choice] = len(work.drained(topic, checkpoint, onLostLocks=choice).rows)
    assert outcomes == {"process": 10, "drop": 0}
    work.runs_again(checkpoint)
    with pytest.raises(PySparkException, match="has finished 10 of its records meanwhile"):
        work.drained(topic, checkpoint, onLostLocks="fail")


def answers_for_each_record(work: Work) -> None:
    topic, answers = work.topic(10), work.folder()

    def answer(batch: DataFrame) -> None:
        acknowledge(batch.where("value = 'r003'").withColumn("ack", f.lit("reject")), answers)

    given = {"ackMode": "explicit", "ackLocation": answers, "defaultAck": "accept"}
    drained = work.drained(topic, write=answer, **given)
    assert len(drained.rows) == 10
    with sync.Admin(work.bootstrap) as admin:
        lags = [state.lag for state in admin.list_share_group_offsets(topic).values()]
    assert lags == [0] * PARTITIONS


def records_that_are_claimed(work: Work) -> None:
    topic, claims = work.topic(10), work.folder()
    assert len(work.drained(topic, ackMode="claim", claimLocation=claims).rows) == 10
    with sync.Admin(work.bootstrap) as admin:
        lags = [state.lag for state in admin.list_share_group_offsets(topic).values()]
    assert lags == [0] * PARTITIONS


def the_number_of_tasks(work: Work) -> None:
    topic = work.topic(40)
    assert work.drained(topic, minPartitions="8").tasks[0] == 8
    work.produce(topic, *["x"] * 40)
    assert work.drained(topic, maxRecordsPerPartition="4").tasks[0] == 10
    work.produce(topic, *["x"] * 40)
    assert work.drained(topic, splitBy="key", minPartitions="8").tasks[0] >= 8


def records_that_are_no_longer_in_the_log(work: Work) -> None:
    topic, checkpoint = work.topic(10), work.folder()
    assert len(work.drained(topic, checkpoint).rows) == 10
    with sync.Admin(work.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 5})
    work.runs_again(checkpoint)
    with pytest.raises(PySparkException, match="acquired records are no longer in the log"):
        work.drained(topic, checkpoint, failOnDataLoss="true")
    drained = work.drained(topic, checkpoint, failOnDataLoss="false")
    assert {row.partition for row in drained.rows} == {1}


def a_topic_that_is_made_later(work: Work) -> None:
    """Also: what the broker knows of the client."""
    first = work.topic(2)
    options = {
        SERVERS: work.bootstrap,
        GROUP: first,
        "subscribePattern": f"{first}.*",
        "startingOffsets": "earliest",
        "pollTimeoutMs": "20",
        "kafka.metadata.max.age.ms": "100",
        "kafka.client.id": "seen-by-the-broker",
        "kafka.request.timeout.ms": "20000",
    }
    seen: set[str] = set()
    writer = work.stream(options).writeStream.option("checkpointLocation", work.folder())
    query = writer.foreachBatch(
        lambda batch, _: seen.update(row.topic for row in batch.collect())
    ).start()
    try:
        wait_until(lambda: seen == {first} or query.exception())
        second = f"{first}-made-later"
        with sync.Admin(work.bootstrap) as admin:
            (group,) = admin.describe_share_groups([first]).values()
            admin.create_topics(second, partitions=PARTITIONS)
        assert [member.client_id for member in group.members] == ["seen-by-the-broker"]
        work.produce(second, "later")
        wait_until(lambda: seen == {first, second} or query.exception())
    finally:
        query.stop()
    assert query.exception() is None


def a_broker_that_dies(work: Work) -> None:
    """One query waits at the broker when it dies, a task of another wants to read."""
    bootstrap, process = work.mortal
    topics = [work.topic(4, bootstrap=bootstrap) for _ in range(2)]
    given = [
        {SERVERS: bootstrap, GROUP: topic, "subscribe": topic, "startingOffsets": "earliest"}
        for topic in topics
    ]
    seen: list[int] = []
    waiting = work.stream({**given[0], "brokerOutageTimeout": "1500ms"}).writeStream
    query = (
        waiting.option("checkpointLocation", work.folder())
        .foreachBatch(lambda batch, _: seen.append(batch.count()))
        .start()
    )
    wait_until(lambda: sum(seen) == 4 or query.exception())

    def die(batch: DataFrame, _: int) -> None:
        os.kill(process, signal.SIGKILL)
        batch.count()

    reading = work.stream({**given[1], "kafkaConsumer.pollTimeoutMs": "700"}).writeStream
    reading = reading.option("checkpointLocation", work.folder()).trigger(availableNow=True)
    dying = reading.foreachBatch(die).start()
    with pytest.raises(PySparkException, match=r"no broker of .* has answered for"):
        query.awaitTermination(SECONDS)
    with pytest.raises(PySparkException, match=r"0\.7|700"):
        dying.awaitTermination(SECONDS)


def options_that_cannot_be(work: Work) -> None:
    topic = work.topic()
    for wrong, sentence in (
        ({"assign": "{}"}, "assign is not available in kafka-share: the group assigns"),
        ({"minPartitions": "many"}, "minPartitions is 'many': write a whole number"),
        ({"includeHeader": "true"}, "did you mean includeHeaders?"),
        ({SERVERS: "broker"}, "kafka.bootstrap.servers is 'broker', which has no port"),
    ):
        reader = work.spark.readStream.format("kafka-share")
        with pytest.raises(PySparkException, match=re.escape(sentence)):
            reader.options(**{**work.options(topic), **wrong}).load()


CASES = (
    headers_and_the_kind_of_timestamp,
    headers_in_a_query_of_their_own_columns,
    a_pattern_and_the_other_name_of_the_group,
    a_new_group_begins_at_a_time,
    configs_of_the_group,
    the_bounds_of_a_batch,
    the_bounds_of_what_is_held,
    the_bytes_of_what_is_held,
    lost_locks,
    answers_for_each_record,
    records_that_are_claimed,
    the_number_of_tasks,
    records_that_are_no_longer_in_the_log,
    a_topic_that_is_made_later,
    a_broker_that_dies,
    options_that_cannot_be,
)
