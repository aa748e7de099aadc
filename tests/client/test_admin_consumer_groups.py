"""The admin client and consumer groups of both protocols, against real brokers."""

from __future__ import annotations

import pytest

from sharegroup import Admin, TopicPartition, sync
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.model.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    KafkaError,
    NonEmptyGroup,
    UnknownMemberId,
)
from tests.client.test_consumer import Protocol, both, consumer, filled, read
from tests.client.working import fresh, run
from tests.servers.running import RunningServer


@both
def test_a_group_with_members(group_broker: RunningServer, protocol: Protocol) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("described")
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with (
            Admin(group_broker.bootstrap) as admin,
            consumer(
                group_broker, topic, group_id=group, protocol=protocol, group_instance_id="one"
            ) as one,
        ):
            await read(one, 10)
            await one.commit()
            [found] = (await admin.describe_consumer_groups([group])).values()
            assert (found.group_id, found.type, found.state) == (group, protocol, "Stable")
            assert (found.group_epoch is None) == (protocol == "classic")
            [member] = found.members
            assert member.instance_id == "one"
            assert member.client_id == "sharegroup"
            assert member.topics == (topic,)
            assert member.assignment == member.target == (first, second)
            outcome = await admin.alter_consumer_group_offsets(group, {first: 1})
            assert isinstance(outcome[first], UnknownMemberId)
            deleted = await admin.delete_consumer_group_offsets(group, first)
            assert isinstance(deleted[first], GroupSubscribedToTopic)
            assert isinstance((await admin.delete_consumer_groups(group))[group], NonEmptyGroup)
            offsets = await admin.list_consumer_group_offsets(group)
            assert {where: at.offset for where, at in offsets.items()} == {first: 5, second: 5}
            assert (await admin.list_consumer_group_offsets(group, [second])).keys() == {second}

    run(scenario)


def test_a_static_member_is_removed(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("removed")
        async with Admin(group_broker.bootstrap) as admin:
            async with consumer(
                group_broker, topic, group_id=group, protocol="classic", group_instance_id="one"
            ) as one:
                await read(one, 10)
            [found] = (await admin.describe_consumer_groups([group])).values()
            assert [member.instance_id for member in found.members] == ["one"]
            assert await admin.remove_group_members(group) == {"one": None}
            [found] = (await admin.describe_consumer_groups([group])).values()
            assert found.members == ()
            [error] = (await admin.remove_group_members(group, "two")).values()
            assert isinstance(error, UnknownMemberId)

    run(scenario)


def test_a_group_without_members(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("altered")
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with Admin(group_broker.bootstrap) as admin:
            assert await admin.list_consumer_group_offsets(group) == {}
            with pytest.raises(GroupIdNotFound):
                await admin.describe_consumer_groups([group])
            wanted = {first: 3, second: OffsetAndMetadata(4, metadata="by hand")}
            outcome = await admin.alter_consumer_group_offsets(group, wanted)
            assert outcome == {first: None, second: None}
            found = await admin.list_consumer_group_offsets(group)
            assert found == {first: OffsetAndMetadata(3), second: wanted[second]}
            [described] = (await admin.describe_consumer_groups([group])).values()
            assert (described.type, described.state, described.members) == ("classic", "Empty", ())
            async with consumer(group_broker, topic, group_id=group) as one:
                assert sorted(await read(one, 3)) == [(0, 3), (0, 4), (1, 4)]
            assert await admin.delete_consumer_group_offsets(group, first) == {first: None}
            assert (await admin.list_consumer_group_offsets(group)).keys() == {second}
            assert await admin.delete_consumer_groups(group) == {group: None}
            with pytest.raises(GroupIdNotFound):
                await admin.describe_consumer_groups([group])

    run(scenario)


def test_a_share_group_is_no_consumer_group(group_broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await filled(group_broker), fresh("share")
        async with Admin(group_broker.bootstrap) as admin:
            await admin.alter_share_group_offsets(group, {TopicPartition(topic, 0): 1})
            with pytest.raises(KafkaError, match=group):
                await admin.describe_consumer_groups([group])

    run(scenario)


def test_blocking(group_broker: RunningServer) -> None:
    with (
        sync.Producer(group_broker.bootstrap) as producer,
        sync.Admin(group_broker.bootstrap) as admin,
    ):
        topic, group = fresh("blocking"), fresh("group")
        producer.send(topic, "1")
        where = TopicPartition(topic, 0)
        assert admin.alter_consumer_group_offsets(group, {where: 1}) == {where: None}
        assert admin.list_consumer_group_offsets(group) == {where: OffsetAndMetadata(1)}
        assert admin.describe_consumer_groups([group])[group].state == "Empty"
        assert admin.remove_group_members(group) == {}
        assert admin.delete_consumer_group_offsets(group, where) == {where: None}
        admin.alter_consumer_group_offsets(group, {where: 1})
        assert admin.delete_consumer_groups(group) == {group: None}
