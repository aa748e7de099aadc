"""Dead letters (KIP-1191) of librdkafka's share consumer, set by Kafka's tools. With
``SHAREGROUP_TEST_BROKER=kafka`` the same holds of Apache Kafka 4.4."""

from __future__ import annotations

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, TopicPartition

from tests.foreign.share_reader import RECEIVE_SECONDS, receive, share_consumer
from tests.foreign.tool_shell import Printed
from tests.servers.admin import SILENT, Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka
ENABLE = "errors.deadletterqueue.group.enable"
TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"


def letters(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "letters", **SILENT})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while len(found) < count:
            found += consumer.consume(count - len(found), RECEIVE_SECONDS)
        return found
    finally:
        consumer.close()


def test_the_tools_set_and_show_what_dead_letters_need(
    printed: Printed, broker: RunningServer, topic: str, group: str
) -> None:
    dead = f"dlq.{topic}"
    printed("kafka-topics", "--create", "--topic", dead)
    # `kafka-topics --config` of Kafka 4.3 does not know the name yet, `kafka-configs` does not ask.
    of_topic = ("--entity-type", "topics", "--entity-name", dead)
    printed("kafka-configs", "--alter", *of_topic, "--add-config", f"{ENABLE}=true")
    assert f"{ENABLE}=true" in printed("kafka-configs", "--describe", *of_topic)
    entity = ("--entity-type", "groups", "--entity-name", group)
    added = f"{TOPIC_NAME}={dead},{COPY}=true"
    printed("kafka-configs", "--alter", *entity, "--add-config", added)
    described = printed("kafka-configs", "--describe", *entity)
    assert f"{TOPIC_NAME}={dead}" in described
    assert f"{COPY}=true" in described

    produce(broker.bootstrap, topic, [b"accept", b"reject", b"too"])
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        seen = 0
        while seen < 3:
            for message in receive(consumer):
                accepted = message.value() == b"accept"
                verb = AcknowledgeType.ACCEPT if accepted else AcknowledgeType.REJECT
                consumer.acknowledge(message, verb)
                seen += 1
        assert set(consumer.commit_sync(20).values()) == {None}

    found = letters(broker.bootstrap, dead, 2)
    assert [message.value() for message in found] == [b"reject", b"too"]
    for offset, message in enumerate(found, start=1):
        said = {name.removeprefix("__dlq.errors."): value for name, value in message.headers()}
        assert said["topic"] == topic.encode()
        assert (said["partition"], said["offset"]) == (b"0", b"%d" % offset)
        assert said["group"] == group.encode()
        assert said["delivery.count"] == b"1"
        assert said["message"] == b"Offset rejected by client."


def test_what_a_group_cannot_name(admin: Admin, group: str) -> None:
    with pytest.raises(Exception, match="__"):
        admin.set_group(group, **{TOPIC_NAME: "__letters"})
