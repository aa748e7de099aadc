"""librdkafka's ShareConsumer: asynchronous commits, several members, what closing gives back."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, TopicPartition

from tests.foreign.share_reader import RECEIVE_SECONDS, receive, share_consumer
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


def test_an_asynchronous_commit_reports_to_the_callback(
    broker: RunningServer, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(50)])
    said: list[tuple[dict[TopicPartition, set[int]], KafkaException | None]] = []
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: said.append((offsets, error))
        )
        taken = 0
        while taken < 50:
            for message in receive(consumer):
                consumer.acknowledge(message)
                taken += 1
            consumer.commit_async()
        deadline = time.monotonic() + RECEIVE_SECONDS
        while told(said) != set(range(50)) and time.monotonic() < deadline:
            assert not list(consumer.poll(0.1))
    assert told(said) == set(range(50))
    assert [error for _, error in said if error is not None] == []


def told(said: list[tuple[dict[TopicPartition, set[int]], KafkaException | None]]) -> set[int]:
    """All offsets that the callback was told of."""
    return {offset for batch, _ in said for offsets in batch.values() for offset in offsets}


def test_closing_releases_unacknowledged_records(
    broker: RunningServer, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"answered", b"dropped"])
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as first:
        held = []
        while len(held) < 2:
            held += receive(first)
        first.acknowledge(held[0])  # and no commit: closing sends it
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as second:
        again = receive(second)  # at once, although its lock would last for 30 s
        for message in again:
            second.acknowledge(message)
    assert [(m.value(), m.delivery_count()) for m in again] == [(b"dropped", 2)]


def test_acknowledge_by_offset_and_the_last_answer_counts(
    broker: RunningServer, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"record"])
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        [message] = receive(consumer)
        consumer.acknowledge(message, AcknowledgeType.REJECT)
        consumer.acknowledge_offset(topic, 0, message.offset(), AcknowledgeType.RELEASE)
        assert set(consumer.commit_sync(20).values()) == {None}
        [again] = receive(consumer)
        consumer.acknowledge(again)
        assert set(consumer.commit_sync(20).values()) == {None}
    assert again.delivery_count() == 2


def test_more_members_than_partitions_drain_a_topic_once(
    broker: RunningServer, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=2)
    sent = [b"%d" % number for number in range(2_000)]
    with ExitStack() as stack:
        members = [
            stack.enter_context(share_consumer(broker.bootstrap, group, name, explicit=False))
            for _ in range(4)
        ]
        produce(broker.bootstrap, name, sent)
        taken: list[bytes | None] = []
        deadline = time.monotonic() + 2 * RECEIVE_SECONDS
        while len(taken) < len(sent) and time.monotonic() < deadline:
            for member in members:
                taken += [message.value() for message in member.poll(0.05)]
                member.commit_async()
    assert sorted(taken) == sorted(sent)
