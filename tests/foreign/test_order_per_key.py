"""librdkafka's and Java's share consumers, unchanged, in a group with order per key
(``share.ordering=key``)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer

from tests.apache_kafka.tools import run_tool
from tests.foreign.share_reader import receive, share_consumer
from tests.servers.admin import SILENT, Admin
from tests.servers.running import RunningServer

VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
COUNT, KEYS = 600, 7


@pytest.mark.process
def test_two_consumers_get_each_key_in_order(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    admin.set_group(group, share_ordering="key", share_ordering_key_max_in_flight="5")
    produce_keys(broker, topic)
    accepted: dict[bytes, list[int]] = {}
    members: set[int] = set()
    with (
        share_consumer(broker.bootstrap, group, topic, explicit=True) as one,
        share_consumer(broker.bootstrap, group, topic, explicit=True) as two,
    ):
        consumers = cycle((one, two))
        while sum(map(len, accepted.values())) < COUNT:
            consumer = next(consumers)
            held = list(consumer.poll(0.5))
            released: set[bytes] = set()
            for message in held:
                key, number = _read(message)
                first = message.delivery_count() == 1
                if key in released or (first and number % 50 == 7):
                    released.add(key)
                    consumer.acknowledge(message, AcknowledgeType.RELEASE)
                else:
                    consumer.acknowledge(message)
                    accepted.setdefault(key, []).append(number)
            if held:
                members.add(id(consumer))
                assert set(consumer.commit_sync(20).values()) == {None}
    assert len(members) == 2
    for key, numbers in accepted.items():
        assert numbers == list(range(int(key), COUNT, KEYS)), f"key {key!r}: {numbers}"


@pytest.mark.process
def test_a_record_that_is_released_comes_before_those_behind_it(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    admin.set_group(group, share_ordering="key")
    producer = Producer({"bootstrap.servers": broker.bootstrap, **SILENT})
    for value in (b"1", b"2", b"3"):
        producer.produce(topic, value, key=b"k")
    assert producer.flush(30) == 0
    seen: list[tuple[bytes | None, int | None]] = []
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        while len(seen) < 6:
            for message in receive(consumer):
                again = message.delivery_count() != 1 or len(seen) >= 3
                kind = AcknowledgeType.ACCEPT if again else AcknowledgeType.RELEASE
                seen.append((message.value(), message.delivery_count()))
                consumer.acknowledge(message, kind)
            assert set(consumer.commit_sync(20).values()) == {None}
    assert seen == [(b"1", 1), (b"2", 1), (b"3", 1), (b"1", 2), (b"2", 1), (b"3", 1)]


@pytest.mark.process
def test_accepts_behind_a_release_of_their_commit_are_no_failure(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    """The application answers for each record by itself, and others' answers hold."""
    admin.set_group(group, share_ordering="key")
    producer = Producer({"bootstrap.servers": broker.bootstrap, **SILENT})
    for key in (b"k", b"other", b"k", b"k"):
        producer.produce(topic, key, key=key)
    assert producer.flush(30) == 0
    seen: list[tuple[int | None, int | None]] = []
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        while len(seen) < 7:
            for message in receive(consumer):
                seen.append((message.offset(), message.delivery_count()))
                first = seen[-1] == (0, 1)
                consumer.acknowledge(
                    message, AcknowledgeType.RELEASE if first else AcknowledgeType.ACCEPT
                )
            assert set(consumer.commit_sync(20).values()) == {None}
    assert seen == [(0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (2, 1), (3, 1)]


@pytest.mark.kafka
def test_two_java_consumers_take_every_record_once(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    """Each prints a key's records in the order of the log. Each ends when it has seen 200; the rest
    is left for a third, which takes up each key where the others have left it."""
    admin.set_group(group, share_ordering="key", share_ordering_key_max_in_flight="3")
    produce_keys(broker, topic)

    def consume(most: int) -> list[tuple[str, int]]:
        output = run_tool(
            VERIFIABLE,
            *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", group),
            *("--acknowledgement-mode", "sync", "--verbose", "--max-messages", str(most)),
        )
        events = [json.loads(line) for line in output.splitlines()]
        done = [event for event in events if event["name"] == "offsets_acknowledged"]
        assert {event["success"] for event in done} == {True}
        return [(event["key"], int(event["value"])) for event in events
                if event["name"] == "record_data"]  # fmt: skip

    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(consume, [200, 200]))
    seen = [*both, consume(COUNT - sum(map(len, both)))]
    assert sorted(number for part in seen for _, number in part) == list(range(COUNT))
    for part in seen:
        for key in range(KEYS):
            mine = [number for its_key, number in part if its_key == str(key)]
            assert mine == sorted(mine), f"key {key}: {mine}"
    for key in range(KEYS):
        last = max((n for part in both for k, n in part if k == str(key)), default=-1)
        assert all(n > last for k, n in seen[2] if k == str(key))


def produce_keys(broker: RunningServer, topic: str) -> None:
    """``COUNT`` records of ``KEYS`` keys in turn; the values are their numbers."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, **SILENT})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode(), key=str(number % KEYS).encode())
    assert producer.flush(30) == 0


def _read(message: Message) -> tuple[bytes, int]:
    key, value = message.key(), message.value()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    return key, int(value)
