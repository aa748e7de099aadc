"""What stock clients see of a broker that is killed and comes back on the same data."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, AcknowledgeType, TopicPartition

from tests.foreign.share_reader import receive, share_consumer
from tests.foreign.test_confluent_producer import read_assigned
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


def test_acknowledged_records_survive_a_kill(own_broker: RunningServer, name: str) -> None:
    Admin(own_broker.bootstrap).create_topic(name)
    sent = [b"%d" % number for number in range(5000)]
    produce(own_broker.bootstrap, name, sent)

    own_broker.kill()
    own_broker.start()

    start = [TopicPartition(name, 0, OFFSET_BEGINNING)]
    messages = read_assigned(own_broker.bootstrap, start, len(sent))
    assert [message.value() for message in messages] == sent


def test_accepted_records_are_not_redelivered_after_a_kill(
    own_broker: RunningServer, name: str
) -> None:
    admin = Admin(own_broker.bootstrap)
    admin.create_topic(name)
    admin.start_group_at_earliest(name)
    produce(own_broker.bootstrap, name, [b"%d" % number for number in range(10)])
    consumer = share_consumer(own_broker.bootstrap, name, name, explicit=True)
    taken: list[bytes | None] = []
    while len(taken) < 10:
        for message in receive(consumer):
            number = int(message.value())
            verb = AcknowledgeType.RELEASE if number % 5 == 4 else AcknowledgeType.ACCEPT
            consumer.acknowledge(message, verb)
            taken.append(message.value())
    assert set(consumer.commit_sync(20).values()) == {None}

    own_broker.kill()
    own_broker.start()

    again: list[tuple[bytes | None, int | None]] = []
    with share_consumer(own_broker.bootstrap, name, name, explicit=True) as other:
        while len(again) < 2:
            for message in receive(other):
                again.append((message.value(), message.delivery_count()))
                other.acknowledge(message)
        other.commit_sync(20)
    consumer.close()
    assert again == [(b"4", 2), (b"9", 2)]
