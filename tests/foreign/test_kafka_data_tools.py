"""ProducerPerformance, ShareConsumerPerformance and the two console consumers."""

from __future__ import annotations

import pytest

from tests.apache_kafka.tools import KafkaTools
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka


def test_java_produces_and_a_java_share_group_drains(
    tools: KafkaTools, admin: Admin, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=4)
    produced = tools.produce(name, 200_000)
    assert produced.records == 200_000

    drained = tools.share_drain(name, group, 150_000)
    assert 0 < drained.records <= 200_000


def test_the_console_consumer_by_assignment(
    broker: RunningServer, tools: KafkaTools, topic: str
) -> None:
    produce(broker.bootstrap, topic, [b"one", b"two", b"three"])
    assert tools.console(topic, 0, 3) == ["one", "two", "three"]


def test_the_console_share_consumer_accepts(
    broker: RunningServer, tools: KafkaTools, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"one", b"two", b"three"])
    assert tools.share_console(topic, group, 3) == ["one", "two", "three"]

    assert next_value(broker, topic, group) == b"last"


def test_the_console_share_consumer_rejects(
    broker: RunningServer, tools: KafkaTools, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"one", b"two"])
    assert tools.share_console(topic, group, 2, "--reject") == ["one", "two"]

    assert next_value(broker, topic, group) == b"last"


def test_the_console_share_consumer_releases(
    broker: RunningServer, tools: KafkaTools, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"one"])
    show_delivery = ("--formatter-property", "print.delivery=true")
    released = tools.share_console(topic, group, 1, "--release", *show_delivery)
    accepted = tools.share_console(topic, group, 1, *show_delivery)

    assert released == ["Delivery:1\tone"]
    assert accepted == ["Delivery:2\tone"]


def next_value(broker: RunningServer, topic: str, group: str) -> bytes | None:
    """What the group gets after one more record: that one, when all before it are done with."""
    produce(broker.bootstrap, topic, [b"last"])
    with share_consumer(broker.bootstrap, group, topic, explicit=False) as consumer:
        return receive_accepting(consumer, 1)[0]
