"""Stock consumers with `group.protocol=consumer` (KIP-848): librdkafka's, Java's, and Kafka's tool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, TopicPartition

from tests.foreign.share_reader import RECEIVE_SECONDS
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

OPTIONS = (
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
    "group.consumer.assignment.interval.ms=0",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A broker whose members send heartbeats often, so that partitions change hands soon."""
    with SharegroupServer(tmp_path_factory.mktemp("kip848"), *OPTIONS) as server:
        yield server


@contextmanager
def consumer(broker: RunningServer, group: str, *topics: str, **more: str) -> Iterator[Consumer]:
    """A librdkafka consumer; underscores in the names of settings stand for dots."""
    settings = {key.replace("_", "."): value for key, value in more.items()}
    made = Consumer({
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "topic.metadata.refresh.interval.ms": "500",
        **settings,
    })  # fmt: skip
    try:
        made.subscribe(list(topics))
        yield made
    finally:
        made.close()


def until(holds: Callable[[], bool], *consumers: Consumer) -> None:
    """Poll the consumers until the condition holds."""
    deadline = time.monotonic() + RECEIVE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, [made.assignment() for made in consumers]
        for made in consumers:
            message = made.poll(0.05)
            assert message is None or message.error() is None, message


def numbers(made: Consumer) -> set[tuple[str, int]]:
    return {(p.topic, p.partition) for p in made.assignment()}


@pytest.mark.process
def test_members_share_partitions_and_hand_them_on(
    broker: RunningServer, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=4)
    with consumer(broker, group, name) as first:
        until(lambda: len(numbers(first)) == 4, first)
        with consumer(broker, group, name) as second:
            until(lambda: len(numbers(first)) == len(numbers(second)) == 2, first, second)
            assert not numbers(first) & numbers(second)
        until(lambda: len(numbers(first)) == 4, first)


@pytest.mark.process
def test_records_and_commits(broker: RunningServer, topic: str, group: str) -> None:
    produce(broker.bootstrap, topic, [b"one", b"two"])
    with consumer(broker, group, topic) as first:
        read = []
        until(lambda: bool(read.append(first.poll(0.1)) or any(read)))
        first.commit(asynchronous=False)
    with consumer(broker, group, topic) as second:
        (place,) = second.committed([TopicPartition(topic, 0)], RECEIVE_SECONDS)
        assert place.offset >= 1
