"""Members of a consumer group that share a partition by key ranges (KIP-X), spoken to by hand, on
virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import Intervals, common, size, union
from sharegroup.model.errors import InvalidRequest
from sharegroup.model.limits import HELD_RANGES_MAX
from sharegroup.wire import apis
from sharegroup.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sharegroup.wire.messages.ranges import PartitionRanges, Range, parts_of, ranges_of
from tests.broker.classic_wire import CLASSIC, ClassicMember
from tests.broker.consumer_wire import EAGER, GROUP, describe
from tests.broker.group_wire import World, simulate
from tests.broker.migration_wire import OldConsumer

Owned = dict[tuple[UUID, int], Intervals]


class Sharer:
    """A member that does what it is told: it gives up at once what it must give back."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        takes: bool = True,
        assignor: str | None = None,
        static_in: str | None = None,
    ) -> None:
        self.world, self.name, self.takes, self.assignor = world, name, takes, assignor
        self.group = static_in or GROUP
        self.instance_id = name if static_in else None
        self.epoch = 0
        self.owned: Owned = {}

    async def beat(self) -> Any:
        topics = sorted({topic for topic, _ in self.owned})
        owned = [
            TopicPartitions(
                topic,
                [p for t, p in self.owned if t == topic],
                ranges_of({p: r for (t, p), r in self.owned.items() if t == topic and r != WHOLE}),
            )
            for topic in topics
        ]
        request = ConsumerGroupHeartbeatRequest(
            self.group,
            self.name,
            self.epoch,
            self.instance_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["foo"],
            server_assignor=self.assignor,
            topic_partitions=owned,
            takes_key_ranges=self.takes,
        )
        answer = await self.world.send(apis.CONSUMER_GROUP_HEARTBEAT, request)
        assert answer.error_code == 0, answer.error_message
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {}
            for topic in answer.assignment.topic_partitions:
                parts = parts_of(topic.key_ranges, topic.partitions)
                for partition in topic.partitions:
                    self.owned[topic.topic_id, partition] = parts.get(partition, WHOLE)
        return answer


async def settle(members: Sequence[Sharer]) -> None:
    """Heartbeats of all until nothing changes. No hash is with two members on the way."""
    for _ in range(8):
        await asyncio.sleep(1)  # the longest wait for an assignment in these tests
        for member in members:
            await member.beat()
            check_apart(members)


def check_apart(members: Sequence[Sharer]) -> None:
    taken: Owned = {}
    for member in members:
        for key, part in member.owned.items():
            assert not common(taken.get(key, ()), part)
            taken[key] = union(taken.get(key, ()), part)


def test_members_that_outnumber_the_partitions_share_them() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        members = [Sharer(world, name) for name in "abcd"]
        await settle(members)
        for partition in (0, 1):
            parts = [m.owned[foo, partition] for m in members if (foo, partition) in m.owned]
            assert [size(part) for part in parts] == [(HASH_MAX + 1) // 2] * 2
            assert union(*parts) == WHOLE
        before = {member.name: member.owned for member in members}
        members.append(Sharer(world, "e"))
        await settle(members)
        moved = sum(
            size(part) - size(common(part, before[m.name].get(key, ())))
            for m in members[:-1]
            for key, part in m.owned.items()
        )
        assert moved == 0, "the new one gets what others give up, and nothing else moves"
        assert size(*members[-1].owned.values()) == (HASH_MAX + 1) // 3

    simulate(scenario, EAGER)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_join_changes_one_partition_only(assignor: str) -> None:
    """The new one's name comes before, between and behind those of the others."""

    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        members = [Sharer(world, name, assignor=assignor) for name in ("d", "h", "l", "p")]
        await settle(members)
        for name in ("a", "f", "z"):
            before = {member.name: member.owned for member in members}
            members.append(Sharer(world, name, assignor=assignor))
            await settle(members)
            [joined] = members[-1].owned
            assert joined in ((foo, 0), (foo, 1))
            for member in members[:-1]:
                assert member.owned.keys() == before[member.name].keys()
                assert joined in member.owned or member.owned == before[member.name]

    simulate(scenario, EAGER)


def test_a_range_is_granted_after_its_owner_has_let_go_of_it() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        one, other = Sharer(world, "a"), Sharer(world, "b")
        await one.beat()
        assert one.owned == {(foo, 0): WHOLE}
        await other.beat()
        assert other.owned == {}
        owned = one.owned
        await one.beat()
        assert size(one.owned[foo, 0]) == (HASH_MAX + 1) // 2
        await other.beat()
        assert other.owned == {}, "the first was told, and has not confirmed it yet"
        told, one.owned = one.owned, owned
        await one.beat()
        await other.beat()
        assert other.owned == {}, "the first says that it owns all still"
        one.owned = told
        await one.beat()
        await other.beat()
        assert union(one.owned[foo, 0], other.owned[foo, 0]) == WHOLE

    simulate(scenario, EAGER)


def test_a_member_that_takes_whole_partitions_only_gets_no_part() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        whole = Sharer(world, "a", takes=False)
        members = [whole, *(Sharer(world, name) for name in "bcd")]
        await settle(members)
        assert whole.owned in ({(foo, 0): WHOLE}, {(foo, 1): WHOLE}, {})
        every = [part for member in members for part in member.owned.values()]
        assert sum(map(size, every)) == 2 * (HASH_MAX + 1)

    simulate(scenario, EAGER)


def test_a_member_that_comes_back_without_ranges_has_no_part() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        one, other = Sharer(world, "a"), Sharer(world, "b")
        await settle([one, other])
        assert WHOLE not in (*one.owned.values(), *other.owned.values())
        other.takes, other.epoch, other.owned = False, 0, {}
        await other.beat()
        assert all(part == WHOLE for part in other.owned.values())
        await settle([one, other])
        assert {*one.owned.values(), *other.owned.values()} == {WHOLE}

    simulate(scenario, "group.consumer.assignment.interval.ms=1000")


def test_a_static_member_that_comes_back_by_the_classic_protocol_has_no_part() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        one, other = (Sharer(world, name, static_in=CLASSIC) for name in "ab")
        await settle([one, other])
        assert WHOLE not in (*one.owned.values(), *other.owned.values())
        back = OldConsumer(ClassicMember(await world.connect(), other.instance_id))
        await back.rejoin()
        assert back.owned == {}, "the first has its part still"
        for _ in range(8):
            await asyncio.sleep(1)
            await one.beat()
            await back.beat()
            assert not (one.owned and back.owned)
        assert one.owned == {(foo, 0): WHOLE} or back.owned == {"foo": [0]}

    simulate(scenario, "group.consumer.assignment.interval.ms=1000")


def test_describe_shows_the_ranges() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        members = [Sharer(world, name) for name in "ab"]
        await settle(members)
        group = await describe(world)
        for member, described in zip(members, group.members, strict=True):
            for assignment in (described.assignment, described.target_assignment):
                [topic] = assignment.topic_partitions
                parts = parts_of(topic.key_ranges, topic.partitions)
                assert parts == {0: member.owned[foo, 0]}

    simulate(scenario, EAGER)


def test_a_restart_keeps_the_ranges() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        members = [Sharer(world, name) for name in "abc"]
        await settle(members)
        before = [member.owned for member in members]
        await world.restart()
        await settle(members)
        assert [member.owned for member in members] == before

    simulate(scenario, EAGER)


EDGE = [Range(2 * n, 2 * n) for n in range(HELD_RANGES_MAX)]


@pytest.mark.parametrize(
    ("ranges", "fine"),
    [
        ([PartitionRanges(0, [Range(0, 0)])], True),
        ([PartitionRanges(0, [Range(HASH_MAX, HASH_MAX)])], True),
        ([PartitionRanges(0, EDGE)], True),
        ([PartitionRanges(0, [*EDGE, Range(HASH_MAX, HASH_MAX)])], False),
        ([PartitionRanges(0, [])], False),
        ([PartitionRanges(0, [Range(-1, 5)])], False),
        ([PartitionRanges(0, [Range(5, 4)])], False),
        ([PartitionRanges(1, [Range(0, 5)])], False),
        ([PartitionRanges(0, [Range(0, 5)]), PartitionRanges(0, [Range(7, 8)])], False),
    ],
)
def test_ranges_that_cannot_be_are_refused(ranges: list[PartitionRanges], fine: bool) -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        member = Sharer(world, "a")
        await member.beat()
        request = ConsumerGroupHeartbeatRequest(
            GROUP, "a", member.epoch, topic_partitions=[TopicPartitions(foo, [0], ranges)]
        )
        answer = await world.send(apis.CONSUMER_GROUP_HEARTBEAT, request)
        assert answer.error_code == (0 if fine else InvalidRequest.code)

    simulate(scenario, EAGER)
