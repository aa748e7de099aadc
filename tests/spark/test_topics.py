"""Topics that come, grow, go and come again while a stream runs."""

from __future__ import annotations

import asyncio
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
from tests.spark.readers import Stream, until

pytestmark = pytest.mark.process

OFTEN = {"kafka.metadata.max.age.ms": "200"}
HEARTBEATS = (
    "group.share.min.heartbeat.interval.ms=300",
    "group.share.heartbeat.interval.ms=300",
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
    with request.param(tmp_path_factory.mktemp("broker"), *HEARTBEATS) as running:
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


def test_a_pattern_matches_topics_that_are_made_later(
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


def test_a_topic_is_deleted_and_made_anew(
    open_stream: Open, server: RunningServer, name: str
) -> None:
    broker = admin.Admin(server.bootstrap)
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
