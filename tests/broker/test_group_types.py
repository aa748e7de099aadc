"""Consumer groups and classic groups: one becomes the other, and both have committed offsets.
Virtual time.
"""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.groups.offsets import CommitClient
from sharegroup.model import errors
from sharegroup.wire.messages.join_group import JoinGroupResponse
from tests.broker.classic_wire import CLASSIC, listed, together
from tests.broker.classic_wire import member as classic_member
from tests.broker.consumer_wire import EAGER, GROUP, beat, commit, describe, fetch, join
from tests.broker.group_wire import World, assigned, simulate
from tests.broker.offset_wire import OffsetClient, Place

NO_MIGRATION = "group.consumer.migration.policy=disabled"


def test_commits_are_for_members_of_this_epoch() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        epoch = (await join(world, "a")).member_epoch
        groups = world.broker.parts.consumer_groups.groups
        held = [(foo, 0)]

        def committer(member: str, epoch: int, *, transactional: bool = False) -> CommitClient:
            return CommitClient(GROUP, member, None, epoch, transactional, version=9)

        groups.check_commit(committer("a", epoch), held)
        groups.check_commit(committer("", -1, transactional=True), held)
        groups.check_fetch(GROUP, None, -1)
        groups.check_fetch(GROUP, "a", epoch)
        for wrong in (epoch - 1, epoch + 1):
            with pytest.raises(errors.StaleMemberEpoch):
                groups.check_commit(committer("a", wrong), held)
            with pytest.raises(errors.StaleMemberEpoch):
                groups.check_fetch(GROUP, "a", wrong)
        for stranger in (committer("b", epoch), committer("", -1)):
            with pytest.raises(errors.UnknownMemberId):
                groups.check_commit(stranger, held)
        assert groups.subscribes(GROUP, "foo")
        assert not groups.subscribes(GROUP, "bar")
        await beat(world, "a", -1)
        groups.check_commit(committer("", -1), held)

    simulate(scenario)


def test_a_commit_on_its_way_counts_while_its_member_has_the_partition() -> None:
    """KIP-1251."""

    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 2)
        old = (await join(world, "a")).member_epoch
        new = (await join(world, "b")).member_epoch
        (mine,) = (assigned(await beat(world, "a", old, owned={foo: [0, 1]})) or {})[foo]
        readers = OffsetClient(world)
        mine_, other = ("foo", mine), ("foo", 1 - mine)

        async def commits(member: str, epoch: int, *places: Place) -> set[int]:
            codes = await readers.commit(dict.fromkeys(places, epoch), member=member, epoch=epoch)
            return set(codes.values())

        assert await commits("a", old, mine_, other) == {0}, "it has not given it back yet"
        told = await beat(world, "a", old, owned={foo: [mine]})
        assert (old, told.member_epoch) == (new - 1, new)
        stale = {errors.StaleMemberEpoch.code}
        assert await commits("a", old, other) == stale, "it has it no more"
        assert await commits("a", old, mine_, other) == stale, "all or nothing"
        assert await commits("a", new + 1, mine_) == stale
        assert assigned(await beat(world, "b", new)) == {foo: [1 - mine]}
        assert await commits("b", new, other) == {0}
        assert await commits("b", old, other) == stale, "before it had it"
        assert await commits("a", old, mine_) == {0}
        in_transaction = {6: errors.StaleMemberEpoch.code, 5: errors.IllegalGeneration.code}
        for version, code in in_transaction.items():
            client = OffsetClient(world, txn_offset_commit=version)
            sent = {other: 5, mine_: 5}
            codes = await client.commit_in_transaction(sent, member="a", epoch=old)
            assert codes == {other: code, mine_: code}
            codes = await client.commit_in_transaction({mine_: 5}, member="a", epoch=old)
            assert codes == {mine_: 0}
        await world.crash()
        assert await commits("a", old, other) == stale
        assert await commits("a", old, mine_) == {0}

    simulate(scenario, EAGER)


def test_members_with_epochs_commit_with_a_version_that_knows_them() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        epoch = (await join(world, "a")).member_epoch
        for version, code in ((8, errors.UnsupportedVersion.code), (9, 0)):
            client = OffsetClient(world, offset_commit=version)
            codes = await client.commit({("foo", 0): 3}, member="a", epoch=epoch)
            assert codes == {("foo", 0): code}

    simulate(scenario)


def test_a_group_changes_its_protocol_when_all_have_left() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        old = await classic_member(world)
        await together(old)
        early = await join(world, "a", group=CLASSIC)
        assert early.error_code == errors.GroupIdNotFound.code
        assert early.error_message == (
            f"Cannot upgrade classic group {CLASSIC} to consumer group because online upgrade is "
            "disabled."
        )
        known = await beat(world, "a", 1, group=CLASSIC)
        assert known.error_message == f"Group {CLASSIC} is not a consumer group."
        assert await old.leave() == 0
        assert assigned(await join(world, "a", group=CLASSIC)) == {foo: [0]}
        late = await old.join_once()
        assert late.error_code == errors.InconsistentGroupProtocol.code

    simulate(scenario, NO_MIGRATION)


def test_an_empty_group_becomes_classic_and_keeps_its_offsets() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        epoch = (await join(world, "a", instance_id="i", group=CLASSIC)).member_epoch
        assert await commit(world, "a", epoch, 7, CLASSIC) == 0
        new = await classic_member(world)
        await beat(world, "a", -2, instance_id="i", group=CLASSIC)
        early = await new.join_once()
        assert early.error_code == errors.InconsistentGroupProtocol.code
        await beat(world, "a", -1, instance_id="i", group=CLASSIC)
        both = (new, await classic_member(world))
        await together(*both)
        assert await fetch(world, CLASSIC) == 7
        assert await listed(world) == {CLASSIC: ("consumer", "Stable", "classic")}
        late = await beat(world, "a", epoch, group=CLASSIC)
        assert late.error_code == errors.GroupIdNotFound.code
        await world.crash()
        assert await listed(world) == {CLASSIC: ("consumer", "Stable", "classic")}
        assert await fetch(world, CLASSIC) == 7

    simulate(scenario, NO_MIGRATION)


def test_a_classic_member_of_old_must_join_anew_in_an_empty_group() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await join(world, "a", group=CLASSIC)
        await beat(world, "a", -1, group=CLASSIC)
        old = await classic_member(world)
        old.member_id, old.joined = "of-old", JoinGroupResponse(protocol_name="range")
        for code in ((await old.sync_once()).error_code, await old.heartbeat(), await old.leave()):
            assert code == errors.UnknownMemberId.code
        assert (await old.join_once()).error_code == errors.UnknownMemberId.code
        old.member_id = ""
        await together(old)

    simulate(scenario)


def test_a_group_that_has_only_committed_offsets_gets_members() -> None:
    async def scenario(world: World) -> None:
        foo = await world.create_topic("foo", 1)
        await commit(world, "", -1, 7)
        assert assigned(await join(world, "a")) == {foo: [0]}
        assert await fetch(world) == 7
        epoch = (await describe(world)).group_epoch
        assert await commit(world, "a", epoch, 9) == 0
        assert await commit(world, "a", epoch - 1, 10) == errors.StaleMemberEpoch.code
        assert await commit(world, "", -1, 11) == errors.UnknownMemberId.code
        assert await fetch(world) == 9
        await beat(world, "a", -1)
        assert await world.delete_groups(GROUP) == {GROUP: 0}
        assert await fetch(world) == -1

    simulate(scenario)


def test_an_empty_group_without_offsets_is_deleted_in_time() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await asyncio.sleep(5)
        for group in ("unused", "with-offsets"):
            epoch = (await join(world, "a", group=group)).member_epoch
            if group != "unused":
                assert await commit(world, "a", epoch, 7, group) == 0
            await beat(world, "a", -1, group=group)
        await asyncio.sleep(20)
        await join(world, "a", instance_id="i", group="away")
        await beat(world, "a", -2, instance_id="i", group="away")
        await asyncio.sleep(30)
        assert set(await listed(world)) == {"unused", "with-offsets", "away"}
        await asyncio.sleep(9)
        assert set(await listed(world)) == {"with-offsets", "away"}
        await world.crash()
        assert set(await listed(world)) == {"with-offsets", "away"}
        await asyncio.sleep(70)
        assert await listed(world) == {"with-offsets": ("consumer", "Empty", "consumer")}
        assert await fetch(world, "with-offsets") == 7

    simulate(scenario, "offsets.retention.check.interval.ms=60000")
