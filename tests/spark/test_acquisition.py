"""What a stream acquires, on our broker and on Apache Kafka: batch after batch and ahead of Spark,
from topics that come, grow and go, from a broker that is killed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sharegroup.client import Admin
from tests.apache_kafka.broker import KafkaBroker
from tests.servers import admin
from tests.servers.admin import produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options
from tests.spark.readers import Stream, produce_singly, until
from tests.spark.reading import ALL, reader_of

pytestmark = pytest.mark.process

OFTEN = {"kafka.metadata.max.age.ms": "200"}
SETTINGS = (
    "group.share.min.heartbeat.interval.ms=300",
    "group.share.heartbeat.interval.ms=300",
    "group.share.min.record.lock.duration.ms=1000",
)
"""The group hears of topics, and members of partitions, as often as they talk to each other."""
Open = Callable[..., Stream]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SharegroupServer, id="sharegroup"),
        pytest.param(KafkaBroker, id="kafka", marks=pytest.mark.kafka),
    ],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with request.param(tmp_path_factory.mktemp("broker"), *SETTINGS) as running:
        yield running


@pytest.fixture
def open_stream(server: RunningServer, name: str) -> Iterator[Open]:
    made: list[Stream] = []

    def make(**options: str) -> Stream:
        made.append(Stream(server, name, **OFTEN, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def read(stream: Stream, wanted: set[bytes]) -> Counter[bytes]:
    """Batches until all these values were there."""
    found: Counter[bytes] = Counter()
    while not wanted <= found.keys():
        found += stream.batch()
    return found


def add_partitions(server: RunningServer, topic: str, count: int) -> None:
    async def add() -> None:
        async with Admin(server.bootstrap) as client:
            await client.create_partitions(topic, count)

    asyncio.run(add())


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_the_next_batch_is_ready_before_spark_asks(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(60))
    stream = open_stream()
    seen = stream.batch(20)
    assert stream.report()["prefetched"] == 0  # nothing was seen through yet
    seen += stream.batch(20)
    until(lambda: stream.report()["prefetched"] == 20)
    seen += stream.batch(20)
    assert seen == Counter(values(60))


def test_batch_and_prefetched_records_together_are_bounded(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(100))
    stream = open_stream(maxAcquiredRecords="30")
    seen = stream.batch(20)
    while seen.total() < 80:
        seen += stream.batch(20)
        until(lambda: stream.report()["prefetched"] == 10)
    assert stream.report()["inFlight"] == 20
    assert seen + stream.values(20) == Counter(values(100))


def test_a_new_process_passes_over_what_is_done_to_new_records(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    """As each run with Trigger.Once: it settles the batch of the run before, whose records come
    again first, more of them than a request brings while their size is not known."""
    options = source_options(server, topic, pollTimeoutMs="20000")  # until the locks are free
    produce_singly(server, topic, [b"%010000d" % n for n in range(300)])
    first = open_stream()
    first.batch()
    first.stop()
    produce_singly(server, topic, [b"new"] * 10)
    second = reader_of(options)
    assert second.latestOffset(first.offset, ALL) != first.offset
    second.stop()


def test_the_first_call_waits_for_partitions_that_come_with_a_later_heartbeat(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(10))
    open_stream().batch()  # from now on the broker has its internal topic
    late = open_stream(**{"kafka.group.id": f"{topic}-late"})
    assert late.next() is not None


def test_a_batch_of_large_records_has_all_that_are_there(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    """More than the first request brings, by which the size of records becomes known."""
    produce_singly(server, topic, [b"%0010000d" % n for n in range(300)])
    assert open_stream().batch().total() == 300


def test_bytes_bound_what_is_acquired(open_stream: Open, server: RunningServer, topic: str) -> None:
    produce_singly(server, topic, [b"%0100000d" % n for n in range(40)])
    stream = open_stream(maxAcquiredBytes="1000000")
    stream.batch()  # the first one tells how large records are
    sizes = [stream.batch().total() for _ in range(2)]
    assert max(sizes) <= 10
    assert stream.report()["prefetched"] + stream.report()["inFlight"] <= 11


@pytest.mark.parametrize("option", ["prefetch", "lockRenew"])
def test_nothing_is_prefetched_when_disabled_or_without_lock_renewal(
    open_stream: Open, server: RunningServer, topic: str, option: str
) -> None:
    produce_singly(server, topic, values(60))
    stream = open_stream(**{option: "false"})
    assert (stream.batch(10) + stream.batch(10)).total() == 20
    assert stream.next(10) is not None  # had there been any, they would have come by now
    assert stream.report()["prefetched"] == 0


def test_prefetched_records_are_released_when_the_query_stops(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(50))
    one = open_stream()
    seen = one.batch(10) + one.batch(10)
    until(lambda: one.report()["prefetched"] == 10)
    one.reader.commit(one.offset)
    one.stop()
    assert seen + open_stream().values(30) == Counter(values(50))


def test_available_now_reads_the_records_present_at_its_start(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce_singly(server, topic, values(60))
    stream = open_stream()
    stream.reader.prepareForTriggerAvailableNow()
    produce_singly(server, topic, [b"later"] * 40)
    seen: Counter[bytes] = Counter()
    while (end := stream.next(20)) is not None:
        seen += stream.run(end)
    assert seen == Counter(values(60))
    stream.stop()
    assert open_stream().values(40) == Counter({b"later": 40})


def test_numbers_of_a_stream(open_stream: Open, server: RunningServer, topic: str) -> None:
    stream = open_stream()
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


def test_a_broker_that_is_killed_in_the_middle_loses_nothing(
    open_stream: Open, server: RunningServer, topic: str
) -> None:
    produce(server.bootstrap, topic, values(200))
    stream = open_stream()
    seen = stream.batch(50) + stream.batch(50)
    until(lambda: stream.report()["prefetched"] >= 50)
    server.kill()
    assert stream.next(50) is None  # locks are gone, of the finished batch and the prefetched one
    server.start()
    while seen.total() < 200:
        seen += stream.batch()
    assert seen == Counter(values(200))
    until(lambda: stream.next() is None and sum(lag or 0 for lag in lags(server, topic)) == 0)


def test_a_pattern_matches_topics_created_later(
    open_stream: Open, server: RunningServer, name: str
) -> None:
    broker = admin.Admin(server.bootstrap)
    for topic in (f"{name}.a", f"{name}.b", f"{name}.a.not"):
        broker.create_topic(topic)
        produce(server.bootstrap, topic, [topic.encode()])
    stream = open_stream(subscribePattern=rf"{name}\.[a-z]|__.*")
    found = read(stream, {f"{name}.a".encode(), f"{name}.b".encode()})
    broker.create_topic(f"{name}.c")
    produce(server.bootstrap, f"{name}.c", [b"later"])
    found += read(stream, {b"later"})
    assert found == Counter([f"{name}.a".encode(), f"{name}.b".encode(), b"later"])


def test_a_pattern_may_match_nothing_yet(
    open_stream: Open, server: RunningServer, name: str
) -> None:
    stream = open_stream(subscribePattern=name)
    assert stream.next() is None
    admin.Admin(server.bootstrap).create_topic(name)
    produce(server.bootstrap, name, [b"first"])
    assert stream.batch() == Counter([b"first"])


def test_available_now_ends_at_once_when_there_is_nothing(
    open_stream: Open, server: RunningServer, name: str
) -> None:
    stream = open_stream(subscribePattern=name)
    stream.reader.prepareForTriggerAvailableNow()
    start = stream.reader.initialOffset()
    assert stream.reader.latestOffset(start, ReadAllAvailable()) == start


def test_partitions_that_are_added(open_stream: Open, server: RunningServer, name: str) -> None:
    admin.Admin(server.bootstrap).create_topic(name)
    produce(server.bootstrap, name, [b"before"])
    stream = open_stream()
    assert stream.batch() == Counter([b"before"])
    add_partitions(server, name, 3)
    until(lambda: stream.next() is None and stream.report()["partitions"] == 3)
    produce(server.bootstrap, name, [b"a", b"b", b"c"])
    assert read(stream, {b"a", b"b", b"c"}) == Counter([b"a", b"b", b"c"])


def test_a_topic_is_deleted_and_recreated(
    open_stream: Open, server: RunningServer, name: str
) -> None:
    broker = admin.Admin(server.bootstrap)
    # Apache Kafka may acquire records in a request that it then refuses: they wait for their locks.
    broker.set_group(name, share_record_lock_duration_ms="2000")
    other = f"{name}.other"
    for topic in (name, other):
        broker.create_topic(topic)
        produce(server.bootstrap, topic, [topic.encode()])
    stream = open_stream(subscribe=f"{name},{other}")
    read(stream, {name.encode(), other.encode()})
    broker.delete_topic(name)
    produce(server.bootstrap, other, [b"goes on"])
    read(stream, {b"goes on"})
    until(lambda: stream.next() is None and stream.report()["partitions"] == 1)
    until(lambda: stream.next() is None and stream.report()["unconfirmed"] == 0)
    broker.create_topic(name)
    produce(server.bootstrap, name, [b"new"])
    assert read(stream, {b"new"}) == Counter([b"new"])


def test_a_new_group_begins_at_a_time(open_stream: Open, server: RunningServer, topic: str) -> None:
    now_ms = int(time.time() * 1000)
    for partition in range(2):
        produce_singly(server, topic, [b"old"], partition, now_ms - 200_000)
        produce_singly(server, topic, [b"young"], partition, now_ms - 100_000)
    produce_singly(server, topic, [b"old"], 2, now_ms - 200_000)
    stream = open_stream(startingTimestamp=str(now_ms - 150_000))
    assert stream.values(2) == Counter({b"young": 2})
    produce_singly(server, topic, [b"new"], 2)
    assert stream.batch() == Counter([b"new"])
