"""A stream in claim mode: larger batches than the group's locks allow, and who may share what."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from sharegroup.model.errors import ConfigError
from sharegroup.spark.source.holding import claiming
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.spark.conftest import lags, source_options, wait_for
from tests.spark.readers import Stream, produce_singly, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

RECORDS = 900
VALUES = Counter(b"%d" % n for n in range(RECORDS))
LOCKS = {"recordLocksPerPartition": "100"}


@pytest.fixture
def topic(server: RunningServer, name: str) -> str:
    """Two partitions of records in batches of their own."""
    admin.Admin(server.bootstrap).create_topic(name, partitions=2)
    for partition in range(2):
        numbers = range(partition, RECORDS, 2)
        produce_singly(server, name, [b"%d" % n for n in numbers], partition=partition)
    return name


def claim_files(location: Path) -> int:
    return len(list(location.glob("claim-*.json")))


def test_a_batch_has_the_requested_size(server: RunningServer, topic: str, tmp_path: Path) -> None:
    stream = Stream(server, topic, claimLocation=str(tmp_path), **LOCKS)
    first = stream.batch(700)
    assert first.total() == 700
    assert sum(lag or 0 for lag in lags(server, topic)) == 200  # accepted before it is processed
    rest = stream.values(200)
    assert first + rest == VALUES
    assert stream.report()["accepted"] == RECORDS
    assert stream.next() is None
    stream.stop()


def test_all_records_in_one_batch(server: RunningServer, topic: str, tmp_path: Path) -> None:
    stream = Stream(server, topic, claimLocation=str(tmp_path), **LOCKS)
    stream.reader.prepareForTriggerAvailableNow()
    produce_singly(server, topic, [b"later"] * 50)
    assert stream.batch() == VALUES
    until(lambda: stream.next() is None)
    stream.stop()
    other = Stream(server, topic)  # what came later was not claimed
    assert other.values(50) == {b"later": 50}
    other.stop()


def test_claimed_records_wait_for_the_next_start(
    server: RunningServer, topic: str, tmp_path: Path
) -> None:
    stream = Stream(server, topic, claimLocation=str(tmp_path), **LOCKS)
    seen = stream.batch(300) + stream.batch(300)
    until(lambda: stream.report()["prefetched"] == 300)
    stream.stop()
    other = Stream(server, topic)
    assert other.next() is None  # they are nobody else's
    other.stop()
    again = Stream(server, topic, claimLocation=str(tmp_path))
    again.offset = stream.offset
    assert seen + again.values(300) == VALUES
    again.stop()


def test_claims_are_deleted_when_no_batch_can_need_them(
    server: RunningServer, topic: str, tmp_path: Path
) -> None:
    stream = Stream(server, topic, claimLocation=str(tmp_path), prefetch="false", **LOCKS)
    stream.batch(300)
    most = claim_files(tmp_path)
    for _ in range(2):
        stream.batch(300)
    stream.next()
    assert claim_files(tmp_path) <= 2 * most
    assert not (tmp_path / "claim-000000000001.json").exists()
    stream.stop()


def test_two_queries_on_one_folder(
    server: RunningServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "LOCK_SECONDS", 0.2)
    one, other = (Stream(server, topic, claimLocation=str(tmp_path)) for _ in range(2))
    assert one.batch(100).total() == 100
    with pytest.raises(ConfigError, match="is in use by another query"):
        other.next()
    other.stop()
    threading.Timer(0.3, one.stop).start()
    monkeypatch.setattr(claiming, "LOCK_SECONDS", 30.0)
    late = Stream(server, topic, claimLocation=str(tmp_path))  # waits for one that is ending
    late.offset = one.offset
    assert late.batch(100).total() == 100
    late.stop()


def test_a_checkpoint_of_claim_mode_is_not_read_without_its_claims(
    server: RunningServer, topic: str, tmp_path: Path
) -> None:
    stream = Stream(server, topic, claimLocation=str(tmp_path / "claims"))
    stream.batch(100)
    stream.stop()
    for options in ({}, {"claimLocation": str(tmp_path / "other")}):
        wrong = Stream(server, topic, **options)
        wrong.offset = stream.offset
        with pytest.raises(ConfigError, match="claimLocation"):
            wrong.next()
        wrong.stop()


def test_a_query_goes_on_in_claim_mode(server: RunningServer, topic: str, tmp_path: Path) -> None:
    implicit = Stream(server, topic, prefetch="false")
    seen = implicit.batch(50)  # committed, and not settled
    implicit.stop()
    claiming_now = Stream(server, topic, claimLocation=str(tmp_path))
    claiming_now.offset = implicit.offset
    assert seen + claiming_now.values(RECORDS - seen.total()) == VALUES
    assert lags(server, topic) == [0, 0]
    claiming_now.stop()


@pytest.mark.spark
def test_a_query_of_spark(
    spark: SparkSession, server: RunningServer, topic: str, tmp_path: Path
) -> None:
    options = source_options(server, topic, claimLocation=str(tmp_path / "claims"), **LOCKS)
    rows = spark.readStream.format("kafka-share").options(**options).load()
    writer = rows.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [RECORDS]
    assert lags(server, topic) == [0, 0]


@pytest.mark.spark
def test_a_query_of_spark_whose_newest_claim_is_missing_fails_until_it_is_back(
    spark: SparkSession, server: RunningServer, topic: str, tmp_path: Path
) -> None:
    claims = tmp_path / "claims"
    options = source_options(
        server, topic, claimLocation=str(claims), maxOffsetsPerTrigger="50", **LOCKS
    )
    counts: dict[int, int] = {}
    newest = claims / "claim-000000000003.json"

    def work(batch: DataFrame, number: int) -> None:
        counts[number] = batch.count()
        if number == 1 and len(counts) == 2:
            wait_for(claims, newest.name, 1)  # acquired ahead: no offset of Spark's has it
            raise OSError("the sink is away")

    def run() -> None:
        rows = spark.readStream.format("kafka-share").options(**options).load()
        writer = rows.writeStream.foreachBatch(work).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="the sink is away"):
        run()
    newest.rename(tmp_path / "aside")
    counts[-1] = 0
    with pytest.raises(StreamingQueryException, match=f"lacks {newest.name}"):
        run()
    assert counts == {0: 50, 1: 50, -1: 0}
    (tmp_path / "aside").rename(newest)
    run()
    assert sum(counts.values()) == RECORDS
    assert lags(server, topic) == [0, 0]
