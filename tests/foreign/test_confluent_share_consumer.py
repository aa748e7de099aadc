"""librdkafka's ShareConsumer, with implicit and explicit acknowledgement."""

from __future__ import annotations

import pytest
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, TopicPartition

from tests.foreign.share_reader import receive, receive_accepting, share_consumer
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


def test_implicit_acknowledgement_takes_every_record_once(
    broker: RunningServer, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=4)
    sent = [b"%d" % number for number in range(3000)]
    produce(broker.bootstrap, name, sent)

    with share_consumer(broker.bootstrap, group, name, explicit=False) as consumer:
        received = receive_accepting(consumer, len(sent))
    assert sorted(received) == sorted(sent)

    produce(broker.bootstrap, name, [b"last"])
    with share_consumer(broker.bootstrap, group, name, explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"last"]


def test_explicit_accept_release_and_reject(broker: RunningServer, topic: str, group: str) -> None:
    produce(broker.bootstrap, topic, [b"accept", b"release", b"reject"])
    verbs = {
        b"accept": AcknowledgeType.ACCEPT,
        b"release": AcknowledgeType.RELEASE,
        b"reject": AcknowledgeType.REJECT,
    }
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        first: list[tuple[bytes | None, int | None]] = []
        while len(first) < 3:
            for message in receive(consumer):
                first.append((message.value(), message.delivery_count()))
                consumer.acknowledge(message, verbs[message.value()])
        results = consumer.commit_sync(20)
        assert set(results.values()) == {None}

        again = receive(consumer)
        for message in again:
            consumer.acknowledge(message)
        consumer.commit_sync(20)

        produce(broker.bootstrap, topic, [b"last"])
        last = receive(consumer)
        consumer.acknowledge(last[0])

    assert first == [(b"accept", 1), (b"release", 1), (b"reject", 1)]
    assert [(message.value(), message.delivery_count()) for message in again] == [(b"release", 2)]
    assert [message.value() for message in last] == [b"last"]


def test_the_commit_callback_names_the_offsets(
    broker: RunningServer, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"a", b"b", b"c"])
    said: list[tuple[dict[TopicPartition, set[int]], KafkaException | None]] = []
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: said.append((offsets, error))
        )
        taken = 0
        while taken < 3:
            for message in receive(consumer):
                consumer.acknowledge(message)
                taken += 1
        consumer.commit_sync(20)

    assert [error for _offsets, error in said if error] == []
    assert set().union(*(offsets for batch, _error in said for offsets in batch.values())) == {
        0,
        1,
        2,
    }


def test_two_consumers_share_one_partition(broker: RunningServer, topic: str, group: str) -> None:
    with (
        share_consumer(broker.bootstrap, group, topic, explicit=True) as one,
        share_consumer(broker.bootstrap, group, topic, explicit=True) as two,
    ):
        produce(broker.bootstrap, topic, [b"warm"])
        for message in receive(one):
            one.acknowledge(message)
        one.commit_sync(20)
        produce(broker.bootstrap, topic, [b"first"])
        held = receive(one)  # and not acknowledged: it stays with this consumer
        produce(broker.bootstrap, topic, [b"second"])
        other = receive(two)
        for consumer, messages in ((one, held), (two, other)):
            for message in messages:
                consumer.acknowledge(message)
            consumer.commit_sync(20)

    assert [message.value() for message in held] == [b"first"]
    assert [message.value() for message in other] == [b"second"]


def test_a_lock_that_runs_out_gives_the_record_to_another(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    admin.set_group(group, share_record_lock_duration_ms="2000")
    produce(broker.bootstrap, topic, [b"slow"])
    with (
        share_consumer(broker.bootstrap, group, topic, explicit=True) as slow,
        share_consumer(broker.bootstrap, group, topic, explicit=True) as other,
    ):
        held = receive(slow)
        taken = receive(other)
        slow.acknowledge(held[0])
        late = slow.commit_sync(20)
        for message in taken:
            other.acknowledge(message)
        in_time = other.commit_sync(20)

    assert [(message.value(), message.delivery_count()) for message in held] == [(b"slow", 1)]
    assert [(message.value(), message.delivery_count()) for message in taken] == [(b"slow", 2)]
    assert [error.args[0].code() for error in late.values() if error] == [
        KafkaError.INVALID_RECORD_STATE
    ]
    assert set(in_time.values()) == {None}


def test_the_delivery_limit_ends_a_poison_record(
    broker: RunningServer, admin: Admin, topic: str, group: str
) -> None:
    admin.set_group(group, share_delivery_count_limit="2")
    produce(broker.bootstrap, topic, [b"poison"])
    counts: list[int | None] = []
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        for _ in range(2):
            for message in receive(consumer):
                counts.append(message.delivery_count())
                consumer.acknowledge(message, AcknowledgeType.RELEASE)
            consumer.commit_sync(20)
        produce(broker.bootstrap, topic, [b"sound"])
        last = receive(consumer)
        consumer.acknowledge(last[0])

    assert counts == [1, 2]
    assert [message.value() for message in last] == [b"sound"]


def test_a_group_starts_at_the_end_by_default(broker: RunningServer, topic: str, name: str) -> None:
    produce(broker.bootstrap, topic, [b"before"])
    with share_consumer(broker.bootstrap, f"{name}-latest", topic, explicit=False) as consumer:
        values: list[bytes | None] = []
        for number in range(60):  # until the group has found its start, records go past it
            produce(broker.bootstrap, topic, [b"after %d" % number])
            values += [message.value() for message in consumer.poll(0.5)]
            if values:
                break

    assert values
    assert b"before" not in values
