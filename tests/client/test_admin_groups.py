"""Share groups through the admin client: looked at, moved, made to forget, deleted."""

from __future__ import annotations

import pytest

from sharegroup.client import Admin
from sharegroup.model.errors import GroupIdNotFound, NonEmptyGroup, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from tests.client.test_share_consumer import consumer_of, lag_becomes
from tests.client.working import fresh, numbers, poll_until, run, topic_with
from tests.servers.running import RunningServer


async def drained(broker: RunningServer, count: int, *, partitions: int = 1) -> tuple[str, str]:
    """A topic whose records a group, now empty, has all accepted."""
    topic, group = await topic_with(broker.bootstrap, count, partitions=partitions)
    async with consumer_of(broker, topic, group) as consumer:
        await poll_until(consumer, count)
        await consumer.commit()
    await lag_becomes(broker, group, 0)
    return topic, group


def test_groups_are_listed_by_type_and_state(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, idle = await drained(broker, 1)
        busy = fresh("group")
        async with Admin(broker.bootstrap) as admin, consumer_of(broker, topic, busy):

            async def listed(*types: str, states: tuple[str, ...] = ()) -> dict[str, str]:
                groups = await admin.list_groups(*types, states=states)
                return {one.group_id: one.state for one in groups if one.group_id in (idle, busy)}

            assert await listed() == {idle: "Empty", busy: "Stable"}
            assert await listed("share") == {idle: "Empty", busy: "Stable"}
            assert await listed("consumer", "classic") == {}
            assert await listed("share", states=("Stable",)) == {busy: "Stable"}
            assert await listed(states=("Empty",)) == {idle: "Empty"}
            assert await listed(states=("Dead",)) == {}

    run(scenario)


def test_several_groups_are_described_at_once(broker: RunningServer) -> None:
    async def scenario() -> None:
        _, first = await drained(broker, 1)
        _, second = await drained(broker, 1)
        async with Admin(broker.bootstrap) as admin:
            described = await admin.describe_share_groups([second, first])
            assert list(described) == [second, first]
            assert {one.state for one in described.values()} == {"Empty"}
            assert all(one.coordinator == 1 and one.group_epoch > 0 for one in described.values())
            with pytest.raises(GroupIdNotFound):
                await admin.describe_share_groups([first, fresh("nobody")])

    run(scenario)


def test_offsets_of_chosen_partitions(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await drained(broker, 6, partitions=2)
        known, unknown = TopicPartition(topic, 1), TopicPartition(fresh("nothing"), 0)
        async with Admin(broker.bootstrap) as admin:
            everything = await admin.list_share_group_offsets(group)
            assert [where.partition for where in everything] == [0, 1]
            chosen = await admin.list_share_group_offsets(group, [known, unknown])
            assert chosen[known] == everything[known]
            assert (chosen[known].lag, chosen[known].leader_epoch) == (0, 0)
            assert (chosen[unknown].start_offset, chosen[unknown].lag) == (None, None)

    run(scenario)


def test_a_partition_has_no_start_offset_until_something_is_finished(
    broker: RunningServer,
) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 3)
        where = TopicPartition(topic, 0)
        async with Admin(broker.bootstrap) as admin, consumer_of(broker, topic, group) as consumer:
            await poll_until(consumer, 3)
            held = (await admin.list_share_group_offsets(group))[where]
            assert (held.start_offset, held.lag) == (None, None)
            await consumer.commit()
            done = (await admin.list_share_group_offsets(group))[where]
            assert done.start_offset in (3, 0)  # Apache Kafka stores it one write late
            assert done.lag == 0

    run(scenario)


def test_a_reset_group_gets_the_records_again(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await drained(broker, 9)
        where = TopicPartition(topic, 0)
        async with Admin(broker.bootstrap) as admin:
            assert await admin.alter_share_group_offsets(group, {where: 4}) == {where: None}
            offset = (await admin.list_share_group_offsets(group))[where]
            assert (offset.start_offset, offset.lag) == (4, 5)
            async with consumer_of(broker, topic, group) as consumer:
                assert numbers(await poll_until(consumer, 5)) == [4, 5, 6, 7, 8]

    run(scenario)


def test_a_reset_returns_the_outcome_of_each_partition(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await drained(broker, 3)
        known, unknown = TopicPartition(topic, 0), TopicPartition(topic, 7)
        elsewhere = TopicPartition(fresh("nothing"), 0)
        async with Admin(broker.bootstrap) as admin:
            wanted = {known: 1, unknown: 1, elsewhere: 1}
            outcome = await admin.alter_share_group_offsets(group, wanted)
            assert outcome[known] is None
            assert isinstance(outcome[unknown], UnknownTopicOrPartition)
            assert isinstance(outcome[elsewhere], UnknownTopicOrPartition)
            assert (await admin.list_share_group_offsets(group))[known].start_offset == 1

    run(scenario)


def test_a_reset_creates_a_group_that_does_not_exist(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 5)
        group, where = fresh("made"), TopicPartition(topic, 0)
        async with Admin(broker.bootstrap) as admin:
            assert await admin.alter_share_group_offsets(group, {where: 3}) == {where: None}
            assert (await admin.describe_share_groups([group]))[group].state == "Empty"
            async with consumer_of(broker, topic, group) as consumer:
                assert numbers(await poll_until(consumer, 2)) == [3, 4]

    run(scenario)


def test_the_offsets_of_a_topic_are_deleted(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await drained(broker, 4)
        unknown = fresh("nothing")
        async with Admin(broker.bootstrap) as admin:
            outcome = await admin.delete_share_group_offsets(group, topic, unknown)
            assert outcome[topic] is None
            assert isinstance(outcome[unknown], UnknownTopicOrPartition)
            assert await admin.list_share_group_offsets(group) == {}
            again = await admin.delete_share_group_offsets(group, topic)
            assert isinstance(again[topic], UnknownTopicOrPartition)
            async with consumer_of(broker, topic, group) as consumer:
                assert numbers(await poll_until(consumer, 4)) == [0, 1, 2, 3]
            with pytest.raises(GroupIdNotFound):
                await admin.delete_share_group_offsets(fresh("nobody"), topic)

    run(scenario)


def test_groups_are_deleted_each_with_its_outcome(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, idle = await drained(broker, 1)
        busy, nobody = fresh("group"), fresh("nobody")
        async with Admin(broker.bootstrap) as admin, consumer_of(broker, topic, busy):
            outcome = await admin.delete_share_groups(idle, busy, nobody)
            assert outcome[idle] is None
            assert isinstance(outcome[busy], NonEmptyGroup)
            assert isinstance(outcome[nobody], GroupIdNotFound)
            with pytest.raises(GroupIdNotFound):
                await admin.describe_share_groups([idle])
            assert (await admin.describe_share_groups([busy]))[busy].state == "Stable"

    run(scenario)


def test_a_group_with_members_is_not_changed(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 4)
        where = TopicPartition(topic, 0)
        async with (
            Admin(broker.bootstrap) as admin,
            consumer_of(broker, topic, group, acknowledgement_mode="explicit") as consumer,
        ):
            records = await poll_until(consumer, 4)
            with pytest.raises(NonEmptyGroup):
                await admin.alter_share_group_offsets(group, {where: 0})
            with pytest.raises(NonEmptyGroup):
                await admin.delete_share_group_offsets(group, topic)
            for record in records:
                consumer.accept(record)
            assert await consumer.commit() == {where: None}

    run(scenario)
