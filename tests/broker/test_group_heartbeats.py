"""Heartbeats of share group members over the wire, with topics coming, growing and going. Kafka's
own scenarios: ShareGroupHeartbeatRequestTest.
"""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.groups.share.heartbeat import ShareHeartbeat
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
)
from tests.broker.group_wire import GROUP, Assigned, World, assigned, simulate

AT_ONCE = "group.share.assignment.interval.ms=0"
BATCHED = "group.share.assignment.interval.ms=1000"
either_way = pytest.mark.parametrize("interval", [AT_ONCE, BATCHED])


async def until_assigned(
    world: World, member: str, epoch: int, wanted: Assigned, topics: tuple[str, ...] | None = None
) -> int:
    """Heartbeat as a client does until ``wanted`` is told; the member's epoch then."""
    for _ in range(5):
        answer = await world.heartbeat(member, epoch, topics)
        told = assigned(answer)
        epoch, topics = answer.member_epoch, None
        if told == wanted:
            return epoch
        await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
    raise AssertionError(f"{member} was never told {wanted}")


@either_way
def test_a_member_joins_before_its_topic_exists_and_leaves(interval: str) -> None:
    async def scenario(world: World) -> None:
        joined = await world.heartbeat("m", 0, ["foo"])
        assert (joined.member_id, joined.member_epoch, assigned(joined)) == ("m", 2, {})
        assert joined.heartbeat_interval_ms == 5_000
        foo = await world.create_topic("foo", 3)
        assert await until_assigned(world, "m", 2, {foo: [0, 1, 2]}) == 3
        left = await world.heartbeat("m", -1)
        assert (left.error_code, left.member_epoch) == (0, -1)

    simulate(scenario, interval)


def test_the_first_heartbeat_of_a_group_carries_the_assignment() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        assert assigned(await world.heartbeat("m", 0, ["foo"])) == {foo: [0, 1]}

    simulate(scenario, BATCHED)


@either_way
def test_two_members_share_the_partitions(interval: str) -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 3)
        first = await world.heartbeat("m1", 0, ["foo"])
        assert assigned(first) == {foo: [0, 1, 2]}
        second = await world.heartbeat("m2", 0, ["foo"])
        if interval == BATCHED:
            assert (second.member_epoch, assigned(second)) == (2, {})
            assert second.heartbeat_interval_ms <= 1_000
            await asyncio.sleep(second.heartbeat_interval_ms / 1000)
            second = await world.heartbeat("m2", 2)
        assert second.member_epoch == 3
        first = await world.heartbeat("m1", 2)
        ours, theirs = (assigned(answer) or {} for answer in (first, second))
        assert sorted(ours[foo] + theirs[foo]) == [0, 1, 2]
        assert assigned(await world.heartbeat("m1", 3)) is None

    simulate(scenario, interval)


@either_way
def test_a_member_leaves_and_comes_back(interval: str) -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        await world.heartbeat("m", 0, ["foo"])
        assert (await world.heartbeat("m", -1)).member_epoch == -1
        again = await world.heartbeat("m", 0, ["foo"])
        assert (again.member_epoch, assigned(again)) == (4, {foo: [0, 1]})

    simulate(scenario, interval)


@either_way
def test_topics_are_created_grown_and_deleted(interval: str) -> None:
    async def scenario(world: World) -> None:
        joined = await world.heartbeat("m", 0, ["foo", "bar", "baz"])
        assert assigned(joined) == {}
        foo, bar = await world.create_topic("foo", 2), await world.create_topic("bar", 3)
        epoch = await until_assigned(world, "m", 2, {foo: [0, 1], bar: [0, 1, 2]})
        assert epoch == 3
        baz = await world.create_topic("baz", 4)
        four = [0, 1, 2, 3]
        epoch = await until_assigned(world, "m", 3, {foo: [0, 1], bar: [0, 1, 2], baz: four})
        assert epoch == 4
        await world.grow_topic("bar", 6)
        six = [*four, 4, 5]
        epoch = await until_assigned(world, "m", 4, {foo: [0, 1], bar: six, baz: four})
        assert epoch == 5
        await world.delete_topic("foo")
        await until_assigned(world, "m", 5, {bar: six, baz: four})
        new_foo = await world.create_topic("foo", 1)
        await asyncio.sleep(1)
        epoch = (await world.heartbeat("m", 0, ["foo", "bar", "baz"])).member_epoch
        told = {new_foo: [0], bar: six, baz: four}
        await until_assigned(world, "m", epoch, told, ("foo", "bar", "baz"))
        assert {name for name, _ in await world.offsets()} == {"foo", "bar", "baz"}

    simulate(scenario, interval)


def test_added_partitions_of_a_known_topic_begin_at_their_first_record() -> None:
    """Kafka 4.3 begins them where share.auto.offset.reset says, and by default skips records."""

    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        epoch = (await world.heartbeat("m", 0, ["foo"])).member_epoch
        await world.grow_topic("foo", 2)
        await asyncio.sleep(1)
        await world.heartbeat("m", epoch)
        assert (await world.offsets())["foo", 1] == (0, 0)
        assert (await world.offsets())["foo", 0] == (-1, -1), "the leader chooses, by the policy"

    simulate(scenario)


def test_a_full_group() -> None:
    async def scenario(world: World) -> None:
        await world.heartbeat("m1", 0, ["foo"])
        await world.heartbeat("m2", 0, ["foo"])
        third = await world.heartbeat("m3", 0, ["foo"])
        assert third.error_code == GroupMaxSizeReached.code
        assert (await world.heartbeat("m1", 0, ["foo"])).error_code == 0
        await world.heartbeat("m2", -1)
        assert (await world.heartbeat("m3", 0, ["foo"])).error_code == 0

    simulate(scenario, "group.share.max.size=2")


def test_a_silent_member_expires_and_may_join_again() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        epoch = (await world.heartbeat("m", 0, ["foo"])).member_epoch
        bar = await world.create_topic("bar", 1)
        await world.heartbeat("m", epoch, ["foo", "bar"])
        both = {foo: [0, 1], bar: [0]}
        await asyncio.sleep(0.4)
        epoch = (await world.heartbeat("m", 0, ["foo", "bar"])).member_epoch
        await asyncio.sleep(0.499)
        assert (await world.heartbeat("m", epoch)).error_code == 0
        await asyncio.sleep(0.502)
        assert (await world.heartbeat("m", epoch)).error_code == UnknownMemberId.code
        assert (await world.describe()).group_state == "Empty"
        again = await world.heartbeat("m", 0, ["foo", "bar"])
        assert assigned(again) == both
        assert again.member_epoch > epoch

    simulate(
        scenario,
        "group.share.heartbeat.interval.ms=500",
        "group.share.min.heartbeat.interval.ms=500",
        "group.share.session.timeout.ms=501",
        "group.share.min.session.timeout.ms=501",
        AT_ONCE,
    )


@pytest.mark.parametrize("crash", [False, True])
def test_members_survive_a_restart_with_a_full_session_timeout(crash: bool) -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        joined = await world.heartbeat("m", 0, ["foo"])
        assert assigned(joined) == {foo: [0, 1]}
        await asyncio.sleep(44)
        await (world.crash() if crash else world.restart())
        await asyncio.sleep(44)
        beat = await world.heartbeat("m", joined.member_epoch)
        assert (beat.error_code, beat.member_epoch) == (0, joined.member_epoch)
        assert assigned(beat) is None
        await asyncio.sleep(45.1)
        assert (await world.describe()).members == []

    simulate(scenario)


def test_a_fenced_member_rejoins_with_epoch_zero() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 3)
        epoch = (await world.heartbeat("m", 0, ["foo"])).member_epoch
        fenced = await world.heartbeat("m", epoch + 1)
        assert fenced.error_code == FencedMemberEpoch.code
        again = await world.heartbeat("m", 0, ["foo"])
        assert (again.member_epoch, assigned(again)) == (epoch, {foo: [0, 1, 2]})

    simulate(scenario)


def test_refusals_in_the_order_of_the_checks() -> None:
    async def scenario(world: World) -> None:
        await world.heartbeat("m", 0, ["foo"])
        for member, epoch, topics, group, error, words in (
            ("", 0, None, "", InvalidRequest, "Invalid member id in the request."),
            ("x" * 37, 0, ["foo"], "grp", InvalidRequest, "Invalid member id in the request."),
            ("m", 0, None, "", InvalidRequest, "GroupId can't be empty."),
            ("m", 0, [], "grp", InvalidRequest, "SubscribedTopicNames must be set in first"),
            ("m", -2, None, "grp", InvalidRequest, "MemberEpoch is invalid."),
            ("m", 1, None, "other", GroupIdNotFound, "Group other not found."),
            ("m", -1, None, "other", GroupIdNotFound, "Group other not found."),
            ("n", 1, None, "grp", UnknownMemberId, "Member n is not a member of group grp."),
            ("n", -1, None, "grp", UnknownMemberId, "Member n is not a member of group grp."),
            ("m", 9, None, "grp", FencedMemberEpoch, "greater member epoch (9)"),
            ("m", 1, None, "grp", FencedMemberEpoch, "the previous member epoch (0)"),
        ):
            answer = await world.heartbeat(member, epoch, topics, group)
            assert answer.error_code == error.code, answer
            assert words in answer.error_message
        assert (await world.describe()).group_epoch == 2

    simulate(scenario)


def test_failed_initialisation_of_delivery_state_is_retried() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("other", 1)
        await world.heartbeat("m", 0, ["other"])
        foo = await world.create_topic("foo", 1)
        await asyncio.sleep(1)
        world.disk.full_for = "__share_group_state"
        joined = await world.heartbeat("m", 0, ["foo"])
        assert assigned(joined) == {}
        world.disk.full_for = ""
        await asyncio.sleep(5)
        assert assigned(await world.heartbeat("m", joined.member_epoch)) == {foo: [0]}

    simulate(scenario)


def test_a_heartbeat_that_cannot_be_written_changes_nothing_and_may_be_retried() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        first = await world.heartbeat("m", 0, ["foo"])
        world.disk.full_for = "__consumer_offsets"
        refused = await world.heartbeat("n", 0, ["foo"])
        assert refused.error_code == CoordinatorNotAvailable.code
        still = await world.heartbeat("n", 0, ["foo"])
        assert still.error_code == CoordinatorNotAvailable.code
        world.disk.full_for = ""
        beat = await world.heartbeat("m", first.member_epoch)
        assert (beat.error_code, beat.member_epoch) == (0, 2)
        assert [m.member_id for m in (await world.describe()).members] == ["m"]
        again = await world.heartbeat("n", 0, ["foo"])
        assert assigned(again) == {foo: [0]}
        await world.crash()
        assert [m.member_id for m in (await world.describe()).members] == ["m", "n"]

    simulate(scenario)


def test_a_group_may_have_its_own_interval() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        own = {"share.assignment.interval.ms": "0"}
        world.broker.parts.configs.set_group(GROUP, own, validate_only=False)
        await world.heartbeat("m1", 0, ["foo"])
        second = assigned(await world.heartbeat("m2", 0, ["foo"]))
        assert second is not None
        assert len(second[foo]) == 1

    simulate(scenario, BATCHED)


def test_members_that_join_together_share_syncs() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 4)
        await world.heartbeat("first", 0, ["foo"])
        world.disk.synced.clear()
        answers = await asyncio.gather(
            *(world.alone(f"m{number:02}", 0, ["foo"]) for number in range(60))
        )
        assert {answer.error_code for answer in answers} == {0}
        syncs = sum("__consumer_offsets" in path for path in world.disk.synced)
        assert 1 <= syncs <= 10
        await world.crash()
        assert len((await world.describe()).members) == 61

    simulate(scenario)


def test_answers_wait_for_the_writes_they_depend_on() -> None:
    """A heartbeat that needs no record of its own waits for those of others before it."""

    async def scenario(world: World) -> None:
        await world.create_topic("foo", 4)
        epoch = (await world.heartbeat("m", 0, ["foo"])).member_epoch
        host = (await world.describe()).members[0].client_host
        ask = world.broker.parts.groups.heartbeat
        join = asyncio.create_task(
            ask(
                ShareHeartbeat(
                    group_id="grp", member_id="n", member_epoch=0, subscribed_topics=("foo",)
                )
            )
        )
        await asyncio.sleep(0)  # decided and written, not yet durable
        await ask(
            ShareHeartbeat(
                group_id="grp",
                member_id="m",
                member_epoch=epoch,
                client_id="client-id",
                client_host=host,
            )
        )
        world.disk.crash()
        await join
        await world.start()
        assert len((await world.describe()).members) == 2

    simulate(scenario)
