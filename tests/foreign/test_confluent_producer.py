"""librdkafka's producer and its consumer by assignment."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from tests.servers.admin import SILENT, Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


def read_assigned(bootstrap: str, partitions: list[TopicPartition], count: int) -> list[Message]:
    """Exactly the first `count` records of these partitions, by assignment, without a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "enable.auto.commit": False,
            **SILENT,
        }
    )
    try:
        consumer.assign(partitions)
        messages: list[Message] = []
        while len(messages) < count:
            batch = consumer.consume(count - len(messages), timeout=120)
            assert batch, f"only {len(messages)} of {count} records came"
            for message in batch:
                assert message.error() is None, message.error()
            messages += batch
        return messages
    finally:
        consumer.close()


def test_every_record_comes_back_in_order(broker: RunningServer, admin: Admin, name: str) -> None:
    admin.create_topic(name, partitions=3)
    sent = {partition: [b"%d-%d" % (partition, n) for n in range(2000)] for partition in range(3)}
    for partition, values in sent.items():
        produce(broker.bootstrap, name, values, partition)

    wanted = [TopicPartition(name, partition, OFFSET_BEGINNING) for partition in sent]
    read: dict[int, list[bytes | None]] = {partition: [] for partition in sent}
    for message in read_assigned(broker.bootstrap, wanted, 6000):
        read[message.partition()].append(message.value())

    assert read == sent


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_key_headers_and_timestamp_survive_compression(
    broker: RunningServer, topic: str, compression: str
) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": compression, **SILENT}
    )
    for number in range(50):
        producer.produce(
            topic,
            key=b"key-%d" % number,
            value=b"value " * 20,
            headers=[("colour", b"red"), ("empty", None)],
            timestamp=1_700_000_000_123 + number,
        )
    assert producer.flush(20) == 0

    start = [TopicPartition(topic, 0, OFFSET_BEGINNING)]
    messages = read_assigned(broker.bootstrap, start, 50)

    assert [message.key() for message in messages] == [b"key-%d" % n for n in range(50)]
    assert {message.value() for message in messages} == {b"value " * 20}
    assert messages[7].headers() == [("colour", b"red"), ("empty", None)]
    assert [message.timestamp()[1] for message in messages] == [
        1_700_000_000_123 + number for number in range(50)
    ]
    assert [message.offset() for message in messages] == list(range(50))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(broker: RunningServer, topic: str, acks: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, **SILENT})
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0

    start = [TopicPartition(topic, 0, OFFSET_BEGINNING)]
    values = [message.value() for message in read_assigned(broker.bootstrap, start, 10)]

    assert values == [b"%d" % number for number in range(10)]


def test_an_idempotent_producer_is_accepted(broker: RunningServer, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **SILENT}
    )
    offsets: list[int | None] = []
    for number in range(300):
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda _error, sent: offsets.append(sent.offset())
        )
        if number % 100 == 0:
            assert producer.flush(20) == 0
    assert producer.flush(20) == 0

    assert offsets == list(range(300))


def test_offsets_and_watermarks(broker: RunningServer, topic: str) -> None:
    produce(broker.bootstrap, topic, (b"x" for _ in range(25)))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "not-used", **SILENT})
    try:
        partition = TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(partition, timeout=120) == (0, 25)
        future = TopicPartition(topic, 0, 4_000_000_000_000)
        assert consumer.offsets_for_times([future], timeout=120)[0].offset == -1
        past = TopicPartition(topic, 0, 1)
        assert consumer.offsets_for_times([past], timeout=120)[0].offset == 0
    finally:
        consumer.close()


def test_first_messages_of_producers_that_make_one_topic_at_once(
    broker: RunningServer, name: str
) -> None:
    producers = [
        Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **SILENT})
        for _ in range(8)
    ]
    for producer in producers:
        producer.list_topics("no-such-topic-to-be-connected-with")
    failed: list[object] = []
    for producer in producers:
        producer.produce(name, b"first", on_delivery=lambda error, _: failed.append(error))
    for producer in producers:
        assert producer.flush(30) == 0
    assert failed == [None] * len(producers)
