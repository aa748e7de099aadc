"""librdkafka's ShareConsumer, unchanged, in a group with order per key (``share.ordering=key``)."""

from __future__ import annotations

from itertools import cycle

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer

from tests.foreign.share_reader import receive, share_consumer
from tests.servers.admin import SILENT, Admin
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process

COUNT, KEYS = 600, 7


def test_two_consumers_get_each_key_in_order(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    admin.set_group(group, share_ordering="key", share_ordering_key_max_in_flight="5")
    producer = Producer({"bootstrap.servers": broker.bootstrap, **SILENT})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode(), key=str(number % KEYS).encode())
    assert producer.flush(30) == 0

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


def _read(message: Message) -> tuple[bytes, int]:
    key, value = message.key(), message.value()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    return key, int(value)
