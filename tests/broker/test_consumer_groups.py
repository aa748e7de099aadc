"""Consumer groups (KIP-848) spoken to by hand, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat
from sharegroup.groups.topics import KnownTopic, TopicsImage
from sharegroup.model import errors
from sharegroup.model.limits import GROUP_REGEXES_MAX
from sharegroup.wire import apis
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from tests.broker.consumer_wire import EAGER, GROUP, beat, describe, held, join
from tests.broker.group_wire import Assigned, World, assigned, simulate


async def settle(world: World, believed: dict[str, tuple[int, Assigned]]) -> None:
    """Heartbeats of all members until nothing changes."""
    for _ in range(6):
        for member, (epoch, owned) in list(believed.items()):
            answer = await beat(world, member, epoch, owned=owned)
            now = assigned(answer)
            believed[member] = (answer.member_epoch, owned if now is None else now)


def test_one_member_joins_and_leaves() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 3)
        joined = await join(world, "a")
        assert assigned(joined) == {foo: [0, 1, 2]}
        assert (joined.member_id, joined.heartbeat_interval_ms) == ("a", 250)
        again = await beat(world, "a", joined.member_epoch)
        assert again.member_epoch == joined.member_epoch
        assert assigned(again) is None
        group = await describe(world)
        assert (group.group_state, group.assignor_name) == ("Stable", "uniform")
        (member,) = group.members
        assert held(member.assignment) == held(member.target_assignment) == {foo: [0, 1, 2]}
        assert (member.subscribed_topic_names, member.member_type) == (["foo"], 1)
        listed = (await world.send(apis.LIST_GROUPS, ListGroupsRequest())).groups
        assert [(g.group_id, g.group_type, g.group_state) for g in listed] == [
            (GROUP, "consumer", "Stable")
        ]
        left = await beat(world, "a", -1)
        assert (left.error_code, left.member_epoch) == (0, -1)
        assert (await describe(world)).group_state == "Empty"

    simulate(scenario)


def test_partitions_change_hands_only_after_their_owner_has_given_them_back() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        first = await join(world, "a")
        second = await join(world, "b")
        assert assigned(second) == {}
        assert (await describe(world)).group_state == "Reconciling"
        told = await beat(world, "a", first.member_epoch, owned={foo: [0, 1]})
        (kept,) = assigned(told)[foo]  # type: ignore[index]
        assert told.member_epoch == first.member_epoch
        waits = await beat(world, "b", second.member_epoch)
        assert assigned(waits) is None
        confirmed = await beat(world, "a", told.member_epoch, owned={foo: [kept]})
        assert confirmed.member_epoch == second.member_epoch
        gets = await beat(world, "b", second.member_epoch)
        assert assigned(gets) == {foo: [1 - kept]}
        assert (await describe(world)).group_state == "Stable"

    simulate(scenario, EAGER)


def test_a_member_that_does_not_give_back_in_time_is_removed() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        first = await join(world, "a", rebalance_timeout_ms=7_000)
        second = await join(world, "b")
        told = await beat(world, "a", first.member_epoch, owned={foo: [0, 1]})
        for _ in range(2):
            await asyncio.sleep(3)
            await beat(world, "a", told.member_epoch, owned={foo: [0, 1]})
        await asyncio.sleep(2)
        answer = await beat(world, "a", told.member_epoch, owned={foo: [0, 1]})
        assert answer.error_code == errors.UnknownMemberId.code
        gets = await beat(world, "b", second.member_epoch)
        assert assigned(gets) == {foo: [0, 1]}

    simulate(scenario, EAGER)


def test_a_silent_member_is_removed() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        await join(world, "a")
        await asyncio.sleep(44)
        assert len((await describe(world)).members) == 1
        await asyncio.sleep(2)
        assert (await describe(world)).members == []

    simulate(scenario)


def test_a_static_member_comes_back_to_its_partitions() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        first = await join(world, "a", instance_id="i")
        taken = await join(world, "b", instance_id="i")
        assert taken.error_code == errors.UnreleasedInstanceId.code
        left = await beat(world, "a", -2, instance_id="i")
        assert (left.error_code, left.member_epoch) == (0, -2)
        epoch = (await describe(world)).group_epoch
        back = await join(world, "b", instance_id="i")
        assert assigned(back) == assigned(first) == {foo: [0, 1]}
        assert (await describe(world)).group_epoch == epoch
        stranger = await beat(world, "a", first.member_epoch, instance_id="i")
        assert stranger.error_code == errors.FencedInstanceId.code

    simulate(scenario)


def test_a_static_member_whose_first_answer_was_lost_joins_again() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        lost = await join(world, "a", instance_id="i")
        again = await join(world, "a", instance_id="i")
        assert assigned(again) == {foo: [0, 1]}
        assert again.member_epoch == lost.member_epoch
        await world.crash()
        again = await join(world, "a", instance_id="i")
        assert assigned(again) == {foo: [0, 1]}
        told = await beat(world, "a", again.member_epoch, instance_id="i", owned={foo: [0, 1]})
        assert told.error_code == 0
        (member,) = (await describe(world)).members
        assert (member.member_id, member.instance_id) == ("a", "i")
        twin = await join(world, "b", instance_id="i")
        assert twin.error_code == errors.UnreleasedInstanceId.code

    simulate(scenario)


def test_a_regular_expression_follows_topics() -> None:
    async def scenario(world: World) -> None:
        eu = await world.create_topic("orders-eu", 1)
        await world.create_topic("planes", 1)
        joined = await join(world, "a", None, subscribed_topic_regex="^orders-.*")
        assert assigned(joined) == {eu: [0]}
        us = await world.create_topic("orders-us", 1)
        await asyncio.sleep(5)
        later = await beat(world, "a", joined.member_epoch, owned={eu: [0]})
        assert assigned(later) == {eu: [0], us: [0]}
        (member,) = (await describe(world)).members
        assert member.subscribed_topic_regex == "^orders-.*"
        await world.crash()
        again = await beat(world, "a", later.member_epoch, owned={eu: [0], us: [0]})
        assert (again.error_code, again.member_epoch) == (0, later.member_epoch)

    simulate(scenario)


@pytest.mark.parametrize(
    "regex", ["(", "(?=a)", "a{100000}", "((((a{100}){100}){100}){100})", ".{0,1000}" * 50]
)
def test_what_re2_refuses_is_no_regular_expression(regex: str) -> None:
    async def scenario(world: World) -> None:
        answer = await join(world, "a", None, subscribed_topic_regex=regex)
        assert answer.error_code == errors.InvalidRegularExpression.code
        assert regex in answer.error_message
        assert (await describe(world)).error_code == errors.GroupIdNotFound.code

    simulate(scenario)


def test_a_group_has_so_many_regular_expressions_and_no_more() -> None:
    async def scenario(world: World) -> None:
        for number in range(GROUP_REGEXES_MAX):
            answer = await join(world, f"m{number}", None, subscribed_topic_regex=f"t{number}")
            assert answer.error_code == 0
        shared = await join(world, "same", None, subscribed_topic_regex="t0")
        assert shared.error_code == 0
        more = await join(world, "more", None, subscribed_topic_regex="more")
        assert more.error_code == errors.InvalidRegularExpression.code
        changed = await beat(world, "m1", answer.member_epoch, subscribed_topic_regex="other")
        assert changed.error_code in (0, errors.FencedMemberEpoch.code)

    simulate(scenario)


@pytest.mark.parametrize("change", [
    {"rebalance_timeout_ms": -1},
    {"topics": None},
    {"instance_id": ""},
    {"rack_id": ""},
    {"group": ""},
    {"member": ""},
])  # fmt: skip
def test_an_incomplete_join_is_refused(change: dict[str, Any]) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        member, topics = change.pop("member", "a"), change.pop("topics", ("foo",))
        answer = await join(world, member, topics, **change)
        assert answer.error_code == errors.InvalidRequest.code
        assert answer.error_message

    simulate(scenario)


def test_refusals() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        nobody = await beat(world, "a", 3)
        assert nobody.error_code == errors.GroupIdNotFound.code
        epoch = (await join(world, "a")).member_epoch
        for answer, error in (
            (await beat(world, "b", 3), errors.UnknownMemberId),
            (await beat(world, "a", epoch + 1), errors.FencedMemberEpoch),
            (await beat(world, "a", epoch - 1), errors.FencedMemberEpoch),
            (await beat(world, "a", -3), errors.InvalidRequest),
            (await beat(world, "a", -2), errors.InvalidRequest),
            (await beat(world, "a", epoch, server_assignor="mine"), errors.UnsupportedAssignor),
            (await world.heartbeat("s", 0, ["foo"], GROUP), errors.GroupIdNotFound),
        ):
            assert answer.error_code == error.code, (answer, error)
        assert (await join(world, "b")).error_code == 0
        for full in (await join(world, "c"), await beat(world, "c", 3)):
            assert full.error_code == errors.GroupMaxSizeReached.code
        await beat(world, "b", -1)
        await world.heartbeat("s", 0, ["foo"], "queue")
        wrong = await join(world, "c", group="queue")
        assert wrong.error_code == errors.GroupIdNotFound.code
        assert wrong.error_message == "Group queue is not a consumer group."
        assert (await describe(world, "queue")).error_code == errors.GroupIdNotFound.code
        refused = await world.delete_groups(GROUP)
        assert refused == {GROUP: errors.NonEmptyGroup.code}
        assert assigned(await join(world, "a")) == {foo: [0]}
        await beat(world, "a", -1)
        assert await world.delete_groups(GROUP) == {GROUP: 0}
        assert (await describe(world)).error_code == errors.GroupIdNotFound.code
        await world.crash()
        assert (await describe(world)).error_code == errors.GroupIdNotFound.code

    simulate(scenario, "group.consumer.max.size=2")


def test_the_protocol_can_be_switched_off() -> None:
    async def scenario(world: World) -> None:
        answer = await join(world, "a")
        assert answer.error_code == errors.UnsupportedVersion.code

    simulate(scenario, "group.coordinator.rebalance.protocols=classic")


def test_members_choose_the_assignor() -> None:
    async def scenario(world: World) -> None:
        topics = [await world.create_topic(name, 2) for name in ("foo", "bar")]
        names = ("bar", "foo")
        believed: dict[str, tuple[int, Assigned]] = {}
        for member in "ba":
            answer = await join(world, member, names, server_assignor="range")
            believed[member] = (answer.member_epoch, assigned(answer) or {})
        await settle(world, believed)
        assert (await describe(world)).assignor_name == "range"
        assert {m: owned for m, (_, owned) in believed.items()} == {
            "a": {topic: [0] for topic in sorted(topics)},
            "b": {topic: [1] for topic in sorted(topics)},
        }

    simulate(scenario, EAGER)


def test_groups_outlive_crash_and_rewrite() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 4)
        believed: dict[str, tuple[int, Assigned]] = {}
        for member in "abc":
            answer = await join(world, member, instance_id=f"i-{member}")
            believed[member] = (answer.member_epoch, assigned(answer) or {})
            await settle(world, believed)
        before = await describe(world)
        for _ in range(20):
            answer = await join(world, "x", group="busy")
            await beat(world, "x", -1, group="busy")
        await asyncio.sleep(0.001)
        log = world.broker.parts.topics.log("__consumer_offsets", 0)
        assert log.log_start_offset > 0
        await world.crash()
        assert await describe(world) == before
        world.broker.parts.consumer_groups.groups.check_invariants()
        epoch, owned = believed["a"]
        assert (await beat(world, "a", epoch, owned=owned)).member_epoch == epoch

    simulate(scenario, EAGER, "group.share.records.per.rewrite=20")


def test_the_feature_is_announced() -> None:
    async def scenario(world: World) -> None:
        answer = await world.send(apis.API_VERSIONS, ApiVersionsRequest("x", "1"))
        assert {f.name: f.max_version_level for f in answer.finalized_features}[
            "group.version"
        ] == 1
        assert 68 in {api.api_key for api in answer.api_keys}

    simulate(scenario)


def test_a_deleted_topic_is_taken_from_its_members() -> None:
    async def scenario(world: World) -> None:
        foo: UUID = await world.create_topic("foo", 1)
        bar = await world.create_topic("bar", 1)
        believed = {"a": (0, {})}  # type: dict[str, tuple[int, Assigned]]
        answer = await join(world, "a", ("bar", "foo"))
        believed["a"] = (answer.member_epoch, assigned(answer) or {})
        await world.delete_topic("bar")
        await settle(world, believed)
        assert believed["a"][1] == {foo: [0]}
        again = await world.create_topic("bar", 1)
        await settle(world, believed)
        assert believed["a"][1] == {foo: [0], again: [0]}
        assert again != bar

    simulate(scenario, EAGER)


def test_acls_decide_what_a_regular_expression_finds() -> None:
    groups = ConsumerGroups(lambda _: GroupSettings(), regex_refresh_ms=600_000)
    ids = {name: KnownTopic(UUID(int=n), 1) for n, name in enumerate(("seen", "secret"), 1)}
    image = TopicsImage(ids)
    joining = ConsumerHeartbeat(
        group_id=GROUP,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_regex="se.*",
        owned={},
    )
    visible = {"seen"}
    result = groups.heartbeat(joining, image, 0, visible.__contains__)
    assert result.assignment == {ids["seen"].topic_id: (0,)}
    visible.add("secret")
    later = ConsumerHeartbeat(group_id=GROUP, member_id="a", member_epoch=result.member_epoch)
    for now_ms, more in ((599_999, False), (600_000, True)):
        found = groups.heartbeat(later, image, now_ms, visible.__contains__)
        assert (found.assignment is not None) == more
