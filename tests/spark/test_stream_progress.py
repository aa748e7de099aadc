"""What a stream tells of itself: in its progress, in its checkpoint, and in the driver's log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from sharegroup.model.ids import TopicIdPartition, parse_topic_id
from sharegroup.spark.advice import Advice
from sharegroup.spark.offsets import Acquired, BatchOffset
from sharegroup.spark.options import ShareOptions
from tests.servers.running import RunningServer
from tests.spark.readers import Stream, produce_singly, until

PARTITION = TopicIdPartition(parse_topic_id("AAAAAAAAAAAAAAAAAAAAAQ"), 0)
OPTIONS = ShareOptions(
    bootstrap_servers="h:1", group_id="g", topics=("t",), max_offsets_per_trigger=100
)


@pytest.fixture
def stream(server: RunningServer, topic: str) -> Iterator[Stream]:
    one = Stream(server, topic)
    yield one
    one.stop()


@pytest.mark.process
def test_numbers_of_a_stream(stream: Stream, server: RunningServer, topic: str) -> None:
    produce_singly(server, topic, [b"%d" % n for n in range(30)])
    stream.batch(10)
    report = stream.report()
    assert report["inFlight"] == 10
    assert report["partitions"] == 4
    end = stream.next(10)
    assert end is not None
    numbers = end["s"]
    assert numbers["accepted"] == 10
    assert numbers["redelivered"] == numbers["renewed"] == numbers["rejected"] == 0
    assert numbers["at"] > 0
    assert numbers["took"] >= 0
    stream.run(end)
    stream.values(10)
    until(lambda: stream.next() is None and stream.report()["lag"] == 0)
    assert stream.report()["lagByPartition"][f"{topic}-0"] == 0
    assert stream.report()["accepted"] == 30


def batch(records: int) -> BatchOffset:
    return BatchOffset(sequence=2, ranges={PARTITION: (Acquired(0, records - 1, 1),)})


def sentences(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_locks_that_bound_the_batch_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    advice = Advice(OPTIONS)
    advice.locks(batch(100), 50)  # as many as asked for
    advice.locks(batch(40), 50)  # there were no more
    advice.locks(batch(40), None)
    assert sentences(caplog) == []
    for _ in range(2):
        advice.locks(batch(50), 50)
    [sentence] = sentences(caplog)
    assert "group g may hold 50 records of a partition" in sentence


def test_batches_longer_than_their_locks_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    advice = Advice(OPTIONS)
    advice.batch_time(29, 30_000)
    advice.batch_time(31, None)
    assert sentences(caplog) == []
    advice.batch_time(31, 30_000)
    assert "a batch took 31 s, but its locks last 30 s" in sentences(caplog)[0]


def test_batches_that_are_not_committed_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    advice = Advice(OPTIONS)
    for sequence in (1, 2):
        advice.superseded(sequence)
        advice.committed(sequence)
    advice.superseded(3)
    assert sentences(caplog) == []
    advice.superseded(4)
    assert "asyncProgressTrackingEnabled" in sentences(caplog)[0]
