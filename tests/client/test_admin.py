"""The admin client, against our broker and Apache Kafka."""

from __future__ import annotations

import pytest

from sharegroup.client import Admin, OffsetSpec
from sharegroup.client.admin.descriptions import ConfigSetting, TopicListing
from sharegroup.model.errors import (
    GroupIdNotFound,
    InvalidConfig,
    InvalidPartitions,
    NonEmptyGroup,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sharegroup.model.ids import TopicPartition
from tests.client.test_share_consumer import consumer_of
from tests.client.working import eventually, fresh, poll_until, run, topic_with
from tests.servers.running import RunningServer


async def about(admin: Admin, topic: str) -> TopicListing:
    """What ``list_topics`` says of one topic."""
    (found,) = [one for one in await admin.list_topics() if one.name == topic]
    return found


def test_topics(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = fresh("topic")
        async with Admin(broker.bootstrap) as admin:
            await admin.create_topics(topic, partitions=2, configs={"retention.ms": "1234567"})
            with pytest.raises(TopicAlreadyExists):
                await admin.create_topics(topic)
            await admin.create_partitions(topic, 3)
            with pytest.raises(InvalidPartitions):
                await admin.create_partitions(topic, 1)
            listed = await eventually(
                lambda: about(admin, topic), lambda one: one.partition_count == 3
            )
            described = (await admin.describe_topics(topic))[topic]
            assert described.topic_id == listed.topic_id
            assert [p.leader for p in described.partitions] == [1, 1, 1]
            assert (await admin.describe_configs("topic", topic))["retention.ms"].value == "1234567"
            await admin.delete_topics(topic)
            await eventually(admin.list_topics, lambda them: all(t.name != topic for t in them))
            with pytest.raises(UnknownTopicOrPartition):
                await admin.describe_topics(topic)

    run(scenario)


def test_group_settings(broker: RunningServer) -> None:
    async def scenario() -> None:
        group, name = fresh("group"), "share.record.lock.duration.ms"
        async with Admin(broker.bootstrap) as admin:
            assert (await admin.describe_configs("group", group))[name].value == "30000"
            await admin.alter_configs("group", group, {name: "20000"})

            async def setting() -> ConfigSetting:
                return (await admin.describe_configs("group", group))[name]

            changed = await eventually(setting, lambda one: one.value == "20000")
            assert not changed.is_default
            await admin.alter_configs("group", group, {name: None})
            await eventually(setting, lambda one: one.value == "30000")
            with pytest.raises(InvalidConfig, match="must be at least 1000"):
                await admin.alter_configs("group", group, {name: "1"})

    run(scenario)


def test_the_cluster_and_its_brokers_settings(broker: RunningServer) -> None:
    async def scenario() -> None:
        async with Admin(broker.bootstrap) as admin:
            cluster = await admin.describe_cluster()
            [node] = cluster.nodes
            assert str(node.address) == broker.bootstrap
            settings = await admin.describe_configs("broker", str(node.node_id))
            assert settings["num.partitions"].value is not None

    run(scenario)


def test_share_groups(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 9)
        where = TopicPartition(topic, 0)
        async with Admin(broker.bootstrap) as admin:
            async with consumer_of(
                broker, topic, group, acknowledgement_mode="explicit"
            ) as consumer:
                records = await poll_until(consumer, 9)
                for record in records[:4]:
                    consumer.accept(record)
                await consumer.commit()
                described = (await admin.describe_share_groups([group]))[group]
                assert (described.state, described.assignor) == ("Stable", "simple")
                [member] = described.members
                assert (member.topics, member.assignment) == ((topic,), (where,))
                offset = (await admin.list_share_group_offsets(group))[where]
                assert offset.lag == 5
                assert offset.in_flight in (5, None)  # Apache Kafka does not tell
                with pytest.raises(NonEmptyGroup):
                    await admin.delete_groups(group)
            assert group in [one.group_id for one in await admin.list_groups("share")]
            await admin.delete_groups(group)
            with pytest.raises(GroupIdNotFound):
                await admin.describe_share_groups([group])

    run(scenario)


def test_records_before_an_offset_are_deleted(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 9)
        where = TopicPartition(topic, 0)
        async with Admin(broker.bootstrap) as admin:
            assert await admin.delete_records({where: 4}) == {where: 4}
            assert (await admin.list_offsets([where], OffsetSpec.EARLIEST))[where].offset == 4

    run(scenario)
