"""Groups that change their protocol while they have members (KIP-848). Virtual time."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.classic_wire import CLASSIC, ClassicMember, listed, member
from tests.broker.consumer_wire import EAGER, beat, commit, describe, fetch, join
from tests.broker.group_wire import World, simulate
from tests.broker.migration_wire import (
    NewConsumer,
    OldConsumer,
    member_types,
    settle,
    shared,
    subscription,
)

SOON = "group.initial.rebalance.delay.ms=100"
ALL = [0, 1, 2, 3]


async def old_group(world: World, *instances: str | None) -> list[OldConsumer]:
    """A stable classic group with partitions 0 to 3 of foo."""
    await world.create_topic("foo", 4)
    olds = [OldConsumer(await member(world, instance)) for instance in instances]
    await asyncio.gather(*(one.join() for one in olds))
    assert await asyncio.gather(*(one.sync() for one in olds)) == [0] * len(olds)
    assert shared(*olds) == ALL
    return olds


async def types(world: World) -> str:
    return (await listed(world))[CLASSIC][2]


def test_a_rolling_upgrade_and_back_keeps_offsets_and_partitions_apart() -> None:
    async def scenario(world: World) -> None:
        one, two = await old_group(world, None, None)
        assert await commit(world, one.member.member_id, 1, 7, CLASSIC) == 0
        new = NewConsumer(world, "new")
        await settle(new, one, two)
        assert await types(world) == "consumer"
        assert shared(one, two, new) == ALL
        assert new.owned["foo"]
        assert sorted((await member_types(world)).values()) == [0, 0, 1]
        assert await one.member.leave() == 0
        other = NewConsumer(world, "other")
        one.owned = {}
        await settle(new, two, other)
        assert shared(new, two, other) == ALL
        assert await two.member.leave() == 0
        await settle(new, other)
        assert sorted((await member_types(world)).values()) == [1, 1]
        assert await fetch(world, CLASSIC) == 7
        back = OldConsumer(await member(world))
        await back.rejoin()
        await settle(new, other, back)
        assert shared(new, other, back) == ALL
        await new.leave()
        await settle(other, back)
        assert await types(world) == "consumer"
        await other.leave()
        assert await types(world) == "classic"
        assert await back.beat(), "it must join again"
        assert back.member.leads
        assert shared(back) == ALL
        assert await fetch(world, CLASSIC) == 7

    simulate(scenario, SOON, EAGER)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_restart_finds_the_members_of_both_protocols(restarts: bool) -> None:
    async def scenario(world: World) -> None:
        (one,) = await old_group(world, None)
        new = NewConsumer(world, "new")
        await new.beat()
        await one.beat()
        if restarts:
            await world.crash()
            one.member = await again(world, one)
        await settle(new, one)
        assert shared(new, one) == ALL
        if restarts:
            await world.crash()
            one.member = await again(world, one)
        await new.leave()
        if restarts:
            await world.crash()
            one.member = await again(world, one)
            assert await types(world) == "classic"
            await one.rejoin()
        else:
            assert await one.beat()
        assert shared(one) == ALL

    simulate(scenario, SOON, EAGER)


async def again(world: World, old: OldConsumer) -> ClassicMember:
    """The same member over a new connection."""
    fresh = await member(world, old.member.instance_id)
    before = old.member
    fresh.member_id, fresh.generation, fresh.joined = (
        before.member_id,
        before.generation,
        before.joined,
    )
    return fresh


def test_members_that_wait_are_told_to_join_again() -> None:
    async def scenario(world: World) -> None:
        one, two = await old_group(world, None, None)
        waits = asyncio.create_task(one.member.join_once(("cooperative-sticky",)))
        await asyncio.sleep(1)
        assert not waits.done()
        new = NewConsumer(world, "new")
        await new.beat()
        assert (await waits).error_code == errors.RebalanceInProgress.code
        assert await types(world) == "consumer"
        await settle(new, one, two)
        assert shared(new, one, two) == ALL

    simulate(scenario, SOON, EAGER)


def test_a_group_whose_first_members_still_join_changes_too() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 4)
        one = OldConsumer(await member(world))
        joining = asyncio.create_task(one.join())
        await asyncio.sleep(1)
        new = NewConsumer(world, "new")
        await new.beat()
        with pytest.raises(AssertionError, match="RebalanceInProgress"):
            await joining
        await one.rejoin()
        await settle(new, one)
        assert shared(new, one) == ALL

    simulate(scenario, "group.initial.rebalance.delay.ms=5000", EAGER)


def test_who_does_not_join_or_sync_in_time_is_removed() -> None:
    async def scenario(world: World) -> None:
        one, two = await old_group(world, None, None)
        new = NewConsumer(world, "new")
        await new.beat()
        assert await one.member.heartbeat() == errors.RebalanceInProgress.code
        await two.join()  # and does not sync
        for _ in range(13):
            await asyncio.sleep(5)
            await new.beat()
            if len(await member_types(world)) > 1:
                await one.member.heartbeat()
                await two.member.heartbeat()
        one.owned = two.owned = {}
        await settle(new)
        assert await member_types(world) == {"new": 1}
        assert shared(new) == ALL

    simulate(scenario, SOON, EAGER)


def test_a_silent_member_of_either_protocol_is_removed() -> None:
    async def scenario(world: World) -> None:
        one, two = await old_group(world, None, None)
        new = NewConsumer(world, "new")
        await settle(new, one, two)
        for _ in range(3):
            await asyncio.sleep(4)
            await one.beat()
            await new.beat()
        two.owned = {}
        await settle(new, one)
        assert two.member.member_id not in await member_types(world)
        for _ in range(10):
            await asyncio.sleep(5)
            code = await one.member.heartbeat()
        assert code == errors.RebalanceInProgress.code, "the last new member is gone"
        assert await types(world) == "classic"
        await one.rejoin()
        assert shared(one) == ALL

    simulate(scenario, SOON, EAGER)


def test_static_members_go_over_and_back_with_their_partitions() -> None:
    async def scenario(world: World) -> None:
        one, two = await old_group(world, "i1", "i2")
        mine = sorted(one.owned["foo"])
        new = NewConsumer(world, "new-1", "i1")
        await new.beat()
        assert sorted(new.owned["foo"]) == mine
        assert await one.member.heartbeat() == errors.FencedInstanceId.code
        one.owned = {}
        await settle(new, two)
        assert shared(new, two) == ALL
        back = OldConsumer(await member(world, "i1"))
        await back.join()
        assert await types(world) == "classic"
        new.owned = {}
        assert await back.sync() == 0
        assert sorted(back.owned["foo"]) == mine
        assert not await back.beat()
        assert shared(back, two) == ALL
        gone = await beat(world, "new-1", new.epoch, group=CLASSIC, instance_id="i1")
        assert gone.error_code == errors.GroupIdNotFound.code

    simulate(scenario, SOON, EAGER)


def test_an_administrator_removes_static_members_of_both_protocols() -> None:
    async def scenario(world: World) -> None:
        await old_group(world, "i1", "i2")
        new = NewConsumer(world, "new", "i3")
        await new.beat()
        named = [MemberIdentity("", name) for name in ("i1", "i3", "stranger")]
        answer = await world.send(apis.LEAVE_GROUP, LeaveGroupRequest(CLASSIC, members=named))
        unknown = errors.UnknownMemberId.code
        assert [left.error_code for left in answer.members] == [0, 0, unknown]
        assert await types(world) == "classic", "only i2 is left"

    simulate(scenario, SOON, EAGER)


def test_leave_removes_the_last_member_of_a_consumer_group() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await join(world, "a", instance_id="i", group=CLASSIC)
        named = [MemberIdentity("", "i")]
        answer = await world.send(apis.LEAVE_GROUP, LeaveGroupRequest(CLASSIC, members=named))
        assert [left.error_code for left in answer.members] == [0]
        assert (await describe(world, CLASSIC)).group_state == "Empty"

    simulate(scenario)


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("disabled", False, False),
        ("Upgrade", True, False),
        ("downgrade", False, True),
        ("bidirectional", True, True),
    ],
)
def test_the_policy_says_which_way_a_group_may_go(policy: str, up: bool, down: bool) -> None:
    async def scenario(world: World) -> None:
        (one,) = await old_group(world, None)
        answer = await join(world, "new", group=CLASSIC)
        assert (answer.error_code == 0) == up
        if not up:
            assert answer.error_code == errors.GroupIdNotFound.code
            assert "online upgrade is disabled" in answer.error_message
            assert await one.member.leave() == 0
            await join(world, "new", group=CLASSIC)
            one = OldConsumer(await member(world))
            one.member.metadata = subscription(one.topics, {})
            refused = await one.member.join_once(("range",))
            if policy == "disabled":
                assert refused.error_code == errors.InconsistentGroupProtocol.code
                return
        await one.rejoin()
        await beat(world, "new", -1, group=CLASSIC)
        assert await types(world) == ("classic" if down else "consumer")
        if not down:
            assert await one.beat(), "the broker assigns where nobody else asks for it"
        await settle(one)
        assert shared(one) == ALL

    simulate(scenario, SOON, EAGER, f"group.consumer.migration.policy={policy}")


def test_errors_of_members_in_a_consumer_group() -> None:
    async def scenario(world: World) -> None:
        (one,) = await old_group(world, "i")
        new = NewConsumer(world, "new")
        await settle(new, one)
        old, generation = one.member, one.member.generation
        answer = await one.member.sync_once()
        assert answer.error_code == 0
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "cooperative-sticky")
        old.joined.protocol_name = "range"
        code = (await old.sync_once()).error_code
        assert code == errors.InconsistentGroupProtocol.code
        old.generation -= 1
        for code in ((await old.sync_once()).error_code, await old.heartbeat()):
            assert code == errors.IllegalGeneration.code
        assert await commit(world, old.member_id, generation + 1, 3, CLASSIC) == (
            errors.IllegalGeneration.code
        )
        assert await commit(world, old.member_id, generation, 3, CLASSIC) == 0
        old.generation, old.instance_id = generation, "other"
        assert await old.heartbeat() == errors.UnknownMemberId.code
        old.instance_id, mine = "i", old.member_id
        old.member_id = "stranger"
        refused = await old.join_once(("cooperative-sticky",))
        for code in (refused.error_code, await old.heartbeat()):
            assert code == errors.FencedInstanceId.code
        old.member_id, old.instance_id = "new", None
        assert await old.heartbeat() == errors.UnknownMemberId.code, "it uses the other protocol"
        old.member_id = mine
        refused = await old.join_once(("unknown",))
        assert refused.error_code == errors.InconsistentGroupProtocol.code
        refused = await old.join_once(("cooperative-sticky",), protocol_type="connect")
        assert refused.error_code == errors.InconsistentGroupProtocol.code
        old.metadata = b"\x00"
        refused = await old.join_once(("cooperative-sticky",))
        assert refused.error_code == errors.InconsistentGroupProtocol.code
        assert (await member_types(world)).keys() == {"new", mine}

    simulate(scenario, SOON, EAGER)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_all_versions_of_the_embedded_protocol_are_served(version: int) -> None:
    async def scenario(world: World) -> None:
        one, two = await old_group(world, None, None)
        one.version = two.version = version
        new = NewConsumer(world, "new")
        await settle(new, one, two)
        assert shared(new, one, two) == ALL

    simulate(scenario, SOON, EAGER)


def test_what_cannot_be_read_stays_classic() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 4)
        one = await member(world)
        one.metadata = subscription(("foo",), {})
        await one.join(("range",))
        garbage = {one.member_id: b"\0\1\0\0\0\0\0\0\0\1x"}
        assert (await one.sync_once(garbage)).error_code == 0
        answer = await join(world, "new", group=CLASSIC)
        assert answer.error_code == errors.GroupIdNotFound.code
        assert "custom assignor" in answer.error_message
        assert await types(world) == "classic"
        assert await one.heartbeat() == 0

    simulate(scenario, SOON, EAGER)


def test_members_that_wait_join_again_although_the_group_stays_classic() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 4)
        one = await member(world)
        one.metadata = subscription(("foo",), {})
        await one.join(("range",))
        garbage = {one.member_id: b"\0\1\0\0\0\0\0\0\0\1x"}
        assert (await one.sync_once(garbage)).error_code == 0
        other = await member(world)
        other.metadata = subscription(("foo",), {})
        waits = asyncio.create_task(other.join_once(("range",)))
        await asyncio.sleep(1)
        waits = waits if not waits.done() else asyncio.create_task(other.join_once(("range",)))
        await asyncio.sleep(1)
        assert not waits.done()
        answer = await join(world, "new", group=CLASSIC)
        assert answer.error_code == errors.GroupIdNotFound.code
        assert (await waits).error_code == errors.RebalanceInProgress.code
        assert await types(world) == "classic"
        joins = [asyncio.create_task(each.join_once(("range",))) for each in (one, other)]
        assert [(await each).error_code for each in joins] == [0, 0]

    simulate(scenario, SOON, EAGER)


def test_a_member_that_joins_with_another_protocol_does_not_keep_a_group_classic() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 4)
        one, two = OldConsumer(await member(world)), await member(world)
        one.member.metadata = two.metadata = subscription(("foo",), {})
        await one.member.join(("range", "cooperative-sticky"))
        assert await one.sync() == 0
        joining = asyncio.create_task(two.join(("cooperative-sticky",)))
        await asyncio.sleep(1)
        new = NewConsumer(world, "new")
        await new.beat()
        with pytest.raises(AssertionError, match="RebalanceInProgress"):
            await joining
        assert await types(world) == "consumer"

    simulate(scenario, SOON, EAGER)


def test_a_commit_keeps_a_classic_member() -> None:
    async def scenario(world: World) -> None:
        (one,) = await old_group(world, None)
        for _ in range(4):
            await asyncio.sleep(6)
            assert await commit(world, one.member.member_id, 1, 5, CLASSIC) == 0
        await asyncio.sleep(11)
        gone = await commit(world, one.member.member_id, 1, 5, CLASSIC)
        assert gone == errors.UnknownMemberId.code

    simulate(scenario, SOON)
