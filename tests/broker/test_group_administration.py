"""What administrators ask of share groups over the wire: describe, list, move, forget, delete,
configure.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.handlers.groups.describe_groups import describe_groups
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidConfig,
    InvalidGroupId,
    InvalidRequest,
    KafkaStorageError,
    NonEmptyGroup,
    UnknownTopicOrPartition,
)
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.broker.group_wire import GROUP, World, simulate

EVERY_OPERATION = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Read, delete, describe, describe configs, alter configs."""
GROUP_RESOURCE, BROKER_RESOURCE = 32, 4
SET, DELETE = 0, 1


async def emptied(world: World, *topics: str) -> None:
    """A group that knows ``topics`` and has no member."""
    await world.heartbeat("m", 0, topics)
    await world.heartbeat("m", -1)


async def produce(world: World, name: str, count: int, partition: int = 0) -> None:
    topic = world.broker.parts.topics.find(name)
    assert topic is not None
    batch = encode_batch([(None, b"v")] * count, timestamp_ms=0)
    data = TopicProduceData(name, topic.topic_id, [PartitionProduceData(partition, batch)])
    response = await world.send(apis.PRODUCE, ProduceRequest(None, -1, 1000, [data]))
    assert response.responses[0].partition_responses[0].error_code == 0


async def fetch(world: World, name: str, epoch: int, member: str = "f") -> list[tuple[int, int]]:
    """(first offset, delivery count) of what partition 0 gives."""
    topic = world.broker.parts.topics.find(name)
    assert topic is not None
    topics = [FetchTopic(topic.topic_id, [FetchPartition(0)])] if epoch == 0 else []
    request = ShareFetchRequest(GROUP, member, epoch, 0, 1, 1 << 20, 100, 100, topics=topics)
    response = await world.send(apis.SHARE_FETCH, request)
    assert response.error_code == 0
    return [
        (acquired.first_offset, acquired.delivery_count)
        for answer in response.responses
        for part in answer.partitions
        for acquired in part.acquired_records
    ]


async def alter_configs(
    world: World, name: str, value: str | None, kind: int = GROUP_RESOURCE
) -> Any:
    operation = DELETE if value is None else SET
    resource_name = GROUP if kind == GROUP_RESOURCE else ""
    config = AlterableConfig(name, operation, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, resource_name, [config])])
    (response,) = (await world.send(apis.INCREMENTAL_ALTER_CONFIGS, request)).responses
    return response


async def configs(world: World, *keys: str, group: str = GROUP) -> Any:
    resource = DescribeConfigsResource(GROUP_RESOURCE, group, list(keys) or None)
    request = DescribeConfigsRequest([resource], True)
    (result,) = (await world.send(apis.DESCRIBE_CONFIGS, request)).results
    return result


# ShareGroupDescribe, DescribeGroups, ListGroups ------------------------------------------------


def test_a_group_is_described_with_its_members() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        await world.heartbeat("m", 0, ["foo", "bar"])
        group = await world.describe(operations=True)
        assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
        assert (group.group_epoch, group.assignment_epoch) == (2, 2)
        assert group.authorized_operations == EVERY_OPERATION
        (member,) = group.members
        assert (member.member_id, member.member_epoch, member.client_id) == ("m", 2, "client-id")
        assert member.client_host.startswith("/")
        assert list(member.subscribed_topic_names) == ["bar", "foo"]
        (topic,) = member.assignment.topic_partitions
        assert (topic.topic_id, topic.topic_name, list(topic.partitions)) == (foo, "foo", [0, 1])
        assert (await world.describe()).authorized_operations == -(2**31)

    simulate(scenario)


def test_groups_that_cannot_be_described() -> None:
    async def scenario(world: World) -> None:
        missing = await world.describe("nobody")
        assert (missing.error_code, missing.group_state) == (GroupIdNotFound.code, "")
        assert missing.error_message == "Group nobody not found."
        assert (await world.describe("")).error_code == InvalidGroupId.code

    simulate(scenario)


@pytest.mark.parametrize("version", [0, 5, 6])
def test_a_share_group_is_no_classic_group(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.heartbeat("m", 0, ["foo"])
        context = RequestContext(version, "", "", None, Access(), ("", 0))
        request = DescribeGroupsRequest([GROUP, "nobody"])
        answer = await describe_groups(world.broker.parts, request, context)
        found = [(group.error_code, group.error_message) for group in answer.groups]
        assert [group.group_state for group in answer.groups] == ["Dead", "Dead"]
        if version < 6:
            assert found == [(0, None), (0, None)]
        else:
            code = GroupIdNotFound.code
            assert found == [
                (code, "Group grp is not a classic group."),
                (code, "Group nobody not found."),
            ]

    simulate(scenario)


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ([], [], ["empty", "stable"]),
        (["Stable"], [], ["stable"]),
        ([" EMPTY ", "dead"], ["share"], ["empty"]),
        (["assigning"], [], []),
        ([], ["Share", "classic"], ["empty", "stable"]),
        ([], ["consumer"], []),
    ],
)
def test_groups_are_listed_by_state_and_type(
    states: list[str], types: list[str], listed: list[str]
) -> None:
    async def scenario(world: World) -> None:
        await world.heartbeat("m", 0, ["foo"], group="stable")
        await world.heartbeat("m", 0, ["foo"], group="empty")
        await world.heartbeat("m", -1, group="empty")
        response = await world.send(apis.LIST_GROUPS, ListGroupsRequest(states, types))
        assert [group.group_id for group in response.groups] == listed
        assert {(g.protocol_type, g.group_type) for g in response.groups} <= {("share", "share")}
        assert all(g.group_state.lower() == g.group_id for g in response.groups)

    simulate(scenario)


# AlterShareGroupOffsets ------------------------------------------------------------------------


def test_a_reset_of_an_empty_group_reaches_the_leader() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        await alter_configs(world, "share.auto.offset.reset", "earliest")
        await emptied(world, "foo")
        await produce(world, "foo", 10)
        assert await fetch(world, "foo", 0) == [(0, 1)]
        answer = await world.alter({("foo", 0): 4, ("foo", 7): 1, ("gone", 0): 1})
        assert answer.error_code == 0
        outcome = {
            (topic.topic_name, part.partition_index): part.error_code
            for topic in answer.responses
            for part in topic.partitions
        }
        unknown = UnknownTopicOrPartition.code
        assert outcome == {("foo", 0): 0, ("foo", 7): unknown, ("gone", 0): unknown}
        assert (await world.offsets())["foo", 0] == (4, 6)
        # The records that somebody held are given out again, as if for the first time.
        assert await fetch(world, "foo", 1) == [(4, 1)]
        await world.crash()
        assert (await world.offsets())["foo", 0] == (4, 6)

    simulate(scenario)


def test_setting_offsets_creates_the_group() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        await world.alter({("nowhere", 0): 1}, group="none")
        assert (await world.describe("none")).error_code == GroupIdNotFound.code
        await world.alter({("foo", 1): 0})
        group = await world.describe()
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Empty", 1, 0)
        assert await world.offsets() == {("foo", 1): (0, 0)}
        await world.crash()
        assert await world.offsets() == {("foo", 1): (0, 0)}
        joined = await world.heartbeat("m", 0, ["foo"])
        assert len(joined.assignment.topic_partitions[0].partitions) == 2

    simulate(scenario)


def test_offsets_that_cannot_be_altered() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await world.heartbeat("m", 0, ["foo"])
        answer = await world.alter({("foo", 0): 0})
        assert (answer.error_code, answer.error_message) == (
            NonEmptyGroup.code,
            "The group is not empty.",
        )
        assert not answer.responses, "nobody has looked at them"
        answer = await world.alter({("foo", 0): 0}, group="")
        assert (answer.error_code, len(answer.responses)) == (InvalidGroupId.code, 0)
        await world.heartbeat("m", -1)
        (topic,) = (await world.alter({("foo", 0): -2})).responses
        assert topic.partitions[0].error_code == InvalidRequest.code
        world.disk.full_for = "__share_group_state"
        answer = await world.alter({("foo", 0): 0})
        assert (answer.error_code, len(answer.responses)) == (KafkaStorageError.code, 0)
        world.disk.full_for = ""
        assert (await world.alter({("foo", 0): 0})).error_code == 0

    simulate(scenario)


# DeleteShareGroupOffsets -----------------------------------------------------------------------


def test_offsets_are_deleted_and_the_topic_is_new_to_the_group_again() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        await world.create_topic("bar", 1)
        await emptied(world, "foo")
        await world.alter({("foo", 0): 0})
        await produce(world, "foo", 3)
        answer = await world.delete_offsets("foo", "bar", "gone")
        assert answer.error_code == 0
        assert [(t.topic_name, t.error_code, t.error_message) for t in answer.responses] == [
            ("foo", 0, None),
            ("bar", 3, "There is no offset information to delete."),
            ("gone", 3, "This server does not host this topic-partition."),
        ]
        assert answer.responses[0].topic_id == foo
        assert await world.offsets() == {}
        await world.crash()
        assert await world.offsets() == {}
        await world.heartbeat("m", 0, ["foo"])
        assert await fetch(world, "foo", 0) == [], "latest: what was there is not for it"

    simulate(scenario)


def test_offsets_that_cannot_be_deleted() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        assert (await world.delete_offsets("foo")).error_code == GroupIdNotFound.code
        assert (await world.delete_offsets("foo", group="")).error_code == InvalidGroupId.code
        await world.heartbeat("m", 0, ["foo"])
        assert (await world.delete_offsets("foo")).error_code == NonEmptyGroup.code
        await world.heartbeat("m", -1)
        world.disk.full_for = "__share_group_state"
        assert (await world.delete_offsets("foo")).error_code == KafkaStorageError.code
        world.disk.full_for = ""
        (topic,) = (await world.delete_offsets("foo")).responses
        assert topic.error_code == 0
        assert await world.offsets() == {}

    simulate(scenario)


# DeleteGroups ----------------------------------------------------------------------------------


def test_groups_are_deleted_each_with_its_own_outcome() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        await alter_configs(world, "share.auto.offset.reset", "earliest")
        await emptied(world, "foo")
        await world.heartbeat("m", 0, ["foo"], group="busy")
        outcome = await world.delete_groups(GROUP, "busy", "nobody", GROUP)
        assert outcome == {
            GROUP: 0,
            "busy": NonEmptyGroup.code,
            "nobody": GroupIdNotFound.code,
        }
        assert await world.offsets() == {}
        await world.crash()
        assert (await world.describe()).error_code == GroupIdNotFound.code
        # Kafka keeps what was set for a group, whether it exists or not.
        (config,) = (await configs(world, "share.auto.offset.reset")).configs
        assert config.value == "earliest"
        assert (await world.heartbeat("m", 0, ["foo"])).member_epoch == 2

    simulate(scenario)


def test_a_partly_failed_deletion_is_finished_by_the_next_try() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        await emptied(world, "foo")
        world.disk.full_for = "__share_group_state"
        assert await world.delete_groups(GROUP) == {GROUP: KafkaStorageError.code}
        world.disk.full_for = ""
        await world.crash()
        assert (await world.describe()).group_state == "Empty"
        assert await world.offsets() == {}
        assert await world.delete_groups(GROUP) == {GROUP: 0}
        assert (await world.describe()).error_code == GroupIdNotFound.code

    simulate(scenario)


def test_a_member_takes_back_a_group_whose_deletion_failed() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        await emptied(world, "foo")
        world.disk.full_for = "__share_group_state"
        await world.delete_groups(GROUP)
        world.disk.full_for = ""
        joined = await world.heartbeat("m", 0, ["foo"])
        assert [t.topic_id for t in joined.assignment.topic_partitions] == [foo]
        assert await fetch(world, "foo", 0) == []

    simulate(scenario)


def test_a_topic_deleted_while_the_broker_was_down_is_forgotten_at_start() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await emptied(world, "foo")
        topic = world.broker.parts.topics.find("foo")
        assert topic is not None
        await world.broker.parts.topics.delete(topic)  # and the crash comes before its groups know
        await world.crash()
        assert world.broker.parts.groups.groups.topic_ids() == set()

    simulate(scenario)


def test_a_topic_deleted_while_groups_cannot_be_written_is_forgotten_when_they_are_loaded() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        bar = await world.create_topic("bar", 1)
        await world.heartbeat("m", 0, ["foo", "bar"])
        world.disk.full_for = "__consumer_offsets"
        refused = await world.heartbeat("n", 0, ["foo"])
        assert refused.error_code == CoordinatorNotAvailable.code
        await world.delete_topic("foo")
        world.disk.full_for = ""
        assert world.broker.parts.groups.groups.topic_ids() == {foo, bar}
        await world.heartbeat("n", 0, ["foo"])
        await asyncio.sleep(0.1)
        assert world.broker.parts.groups.groups.topic_ids() == {bar}
        await world.crash()
        assert world.broker.parts.groups.groups.topic_ids() == {bar}

    simulate(scenario)


# Offsets and lag -------------------------------------------------------------------------------


def test_lag_counts_unfinished_records() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        await emptied(world, "foo")
        assert set((await world.offsets()).values()) == {(-1, -1)}, "nobody has begun"
        await world.alter({("foo", 0): 0, ("foo", 1): 5})
        await produce(world, "foo", 10)
        await produce(world, "foo", 8, partition=1)
        assert await world.offsets() == {("foo", 0): (0, 10), ("foo", 1): (5, 3)}
        assert await world.offsets("nobody") == {}

    simulate(scenario)


# Configs ---------------------------------------------------------------------------------------


def test_a_group_config_says_where_its_value_comes_from() -> None:
    name, broker_name = "share.record.lock.duration.ms", "group.share.record.lock.duration.ms"

    async def scenario(world: World) -> None:
        async def sources() -> list[tuple[str, str, int]]:
            (config,) = (await configs(world, name)).configs
            assert (config.value, config.config_source) == (
                config.synonyms[0].value,
                config.synonyms[0].source,
            )
            return [(s.name, s.value, s.source) for s in config.synonyms]

        default, static = (broker_name, "30000", 5), (broker_name, "20000", 4)
        assert await sources() == [static, default]
        await alter_configs(world, broker_name, "25000", BROKER_RESOURCE)
        dynamic = (broker_name, "25000", 3)  # a default of every broker
        assert await sources() == [dynamic, static, default]
        await alter_configs(world, name, "40000")
        assert await sources() == [(name, "40000", 8), dynamic, static, default]
        assert world.broker.parts.configs.group(GROUP).record_lock_duration_ms == 40_000
        # The bounds shrink: the value stays as it was set, and is clamped as it is used.
        await alter_configs(world, "group.share.max.record.lock.duration.ms", "35000", 4)
        assert (await sources())[0] == (name, "40000", 8)
        assert world.broker.parts.configs.group(GROUP).record_lock_duration_ms == 35_000
        await alter_configs(world, name, None)
        assert await sources() == [dynamic, static, default]

    simulate(scenario, f"{broker_name}=20000")


def test_group_configs_that_cannot_be() -> None:
    async def scenario(world: World) -> None:
        for name, value in (
            ("share.record.lock.duration.ms", "1000"),
            ("share.auto.offset.reset", "by_duration:-PT1S"),
            ("share.isolation.level", "none"),
            ("colour", "red"),
        ):
            assert (await alter_configs(world, name, value)).error_code == InvalidConfig.code
        assert (await configs(world, group="")).error_code == InvalidRequest.code
        assert (await configs(world, group="nobody")).error_code == 0

    simulate(scenario)


@pytest.mark.parametrize(
    ("draft", "today", "kind"),
    [
        ("share.delivery.attempt.limit", "share.delivery.count.limit", GROUP_RESOURCE),
        ("group.share.delivery.attempt.limit", "group.share.delivery.count.limit", BROKER_RESOURCE),
    ],
)
def test_draft_names_are_accepted_with_a_warning(
    draft: str, today: str, kind: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        assert (await alter_configs(world, draft, "7", kind)).error_code == 0
        assert f"{draft} is a name from a KIP draft; use {today}" in caplog.text
        assert world.broker.parts.configs.group(GROUP).delivery_count_limit == 7
        assert (await alter_configs(world, draft, None, kind)).error_code == 0
        assert world.broker.parts.configs.group(GROUP).delivery_count_limit == 5

    simulate(scenario)


def test_a_reset_by_duration_begins_that_long_ago() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await alter_configs(world, "share.auto.offset.reset", "by_duration:PT30S")
        await produce_now(world, "foo")
        await asyncio.sleep(20)
        await produce_now(world, "foo")
        await asyncio.sleep(20)
        await world.heartbeat("m", 0, ["foo"])
        assert await fetch(world, "foo", 0) == [(1, 1)]

    simulate(scenario)


async def produce_now(world: World, name: str) -> None:
    topic = world.broker.parts.topics.find(name)
    assert topic is not None
    batch = encode_batch([(None, b"v")], timestamp_ms=world.broker.parts.clock.wall_ms())
    data = TopicProduceData(name, topic.topic_id, [PartitionProduceData(0, batch)])
    await world.send(apis.PRODUCE, ProduceRequest(None, -1, 1000, [data]))
