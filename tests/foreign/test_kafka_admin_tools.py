"""kafka-topics, kafka-configs and kafka-share-groups."""

from __future__ import annotations

import pytest

from tests.apache_kafka.tools import KafkaTools, ToolFailed
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers.admin import produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka


def test_the_life_of_a_topic(tools: KafkaTools, name: str) -> None:
    tools.topics("--create", "--topic", name, "--partitions", "2", "--replication-factor", "1")
    assert name in tools.topics("--list").split()
    assert "PartitionCount: 2" in tools.topics("--describe", "--topic", name)

    tools.topics("--alter", "--topic", name, "--partitions", "5")
    described = tools.topics("--describe", "--topic", name)
    assert "PartitionCount: 5" in described
    assert described.count("Partition: ") == 5

    tools.topics("--delete", "--topic", name)
    assert name not in tools.topics("--list").split()


def test_a_topic_that_exists_is_not_made_again(tools: KafkaTools, topic: str) -> None:
    with pytest.raises(ToolFailed, match="already exists"):
        tools.topics("--create", "--topic", topic, "--partitions", "1")


def test_partitions_only_grow(tools: KafkaTools, topic: str) -> None:
    with pytest.raises(ToolFailed, match="InvalidPartitions"):
        tools.topics("--alter", "--topic", topic, "--partitions", "1")


def test_topic_configs(tools: KafkaTools, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tools.configs("--alter", *entity, "--add-config", "retention.ms=123456,segment.bytes=1048576")
    described = tools.configs("--describe", *entity)
    assert "retention.ms=123456" in described
    assert "segment.bytes=1048576" in described

    tools.configs("--alter", *entity, "--delete-config", "retention.ms")
    described = tools.configs("--describe", *entity)
    assert "retention.ms=123456" not in described
    assert "segment.bytes=1048576" in described


def test_group_configs(tools: KafkaTools, name: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", name)
    settings = "share.auto.offset.reset=earliest,share.record.lock.duration.ms=20000"
    tools.configs("--alter", *entity, "--add-config", settings)
    described = tools.configs("--describe", *entity)
    assert "share.auto.offset.reset=earliest" in described
    assert "share.record.lock.duration.ms=20000" in described


@pytest.mark.parametrize(
    "setting", ["share.auto.offset.reset=sometime", "share.record.lock.duration.ms=1"]
)
def test_a_wrong_group_config_is_refused(tools: KafkaTools, name: str, setting: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", name)
    with pytest.raises(ToolFailed, match=r"InvalidConfigurationException|InvalidRequestException"):
        tools.configs("--alter", *entity, "--add-config", setting)


def test_a_share_group_can_be_described(
    broker: RunningServer, tools: KafkaTools, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"one", b"two"])
    with share_consumer(broker.bootstrap, group, topic, explicit=False) as consumer:
        receive_accepting(consumer, 2)
        members = tools.share_groups("--describe", "--group", group, "--members")
        state = tools.share_groups("--describe", "--group", group, "--state")

    assert f"{topic}:0" in members
    assert "Stable" in state
