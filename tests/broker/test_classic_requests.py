"""Requests to classic groups: every version, limits, bad input. Virtual time."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.model.errors import (
    NONE,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from sharegroup.model.limits import GROUP_PROTOCOLS_MAX, MEMBER_ID_PREFIX_LENGTH_MAX
from tests.broker.classic_wire import CLASSIC, asked, listed, member, together
from tests.broker.group_wire import GROUP, World, simulate

SOON = "group.initial.rebalance.delay.ms=100"


def test_types_of_group_share_one_namespace_of_ids() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await world.heartbeat("m", 0, ["foo"])
        one = await member(world)
        answer = await one.join_once(group=GROUP)
        assert answer.error_code == InconsistentGroupProtocol.code
        assert answer.member_id == ""
        await together(one)
        shared = await world.heartbeat("m", 0, ["foo"], CLASSIC)
        assert shared.error_code == GroupIdNotFound.code
        assert shared.error_message == f"Group {CLASSIC} is not a share group."
        assert (await world.alter({("foo", 0): 0}, CLASSIC)).error_code == GroupIdNotFound.code
        assert {g: row[2] for g, row in (await listed(world)).items()} == {
            GROUP: "share",
            CLASSIC: "classic",
        }
        assert list(await listed(world, types_filter=["CLASSIC"])) == [CLASSIC]
        assert list(await listed(world, states_filter=["empty"])) == []

    simulate(scenario, SOON)


def test_bad_joins() -> None:
    async def scenario(world: World) -> None:
        one = await member(world)
        assert (await one.join_once(group="")).error_code == InvalidGroupId.code
        for session_ms, code in (
            (5_999, InvalidSessionTimeout.code),
            (6_000, MemberIdRequired.code),
            (1_800_000, MemberIdRequired.code),
            (1_800_001, InvalidSessionTimeout.code),
        ):
            one.member_id = ""
            assert (await one.join_once(session_ms=session_ms)).error_code == code
        one.member_id = "nobody"
        assert (await one.join_once()).error_code == UnknownMemberId.code
        one.member_id = ""
        assert (await one.join_once(())).error_code == InconsistentGroupProtocol.code
        await together(one)
        two = await member(world)
        assert (await two.join_once(["other"])).error_code == InconsistentGroupProtocol.code
        many = [f"p{n}" for n in range(100)]
        assert (await two.join_once(["range", *many])).error_code == InconsistentGroupProtocol.code
        assert (await two.join_once(["range", *many[1:]])).error_code == MemberIdRequired.code

    simulate(scenario, SOON)


def test_a_full_group_takes_no_more_members() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one)
        assert (await two.join_once()).error_code == GroupMaxSizeReached.code
        assert await one.heartbeat() == NONE

    simulate(scenario, SOON, "group.max.size=1")


@pytest.mark.parametrize("join", range(10))
def test_every_version(join: int) -> None:
    """Old clients among new ones: each with the versions of its time."""
    versions = {
        "join_group": join,
        "sync_group": min(join, 5),
        "heartbeat": min(join, 4),
        "leave_group": min(join, 5),
    }

    async def scenario(world: World) -> None:
        old, new = await member(world, **versions), await member(world)
        first = await old.join_once()
        assert first.error_code == (MemberIdRequired.code if join >= 4 else NONE)
        if join >= 4:
            await old.join()
        assert await old.sync() == old.member_id.encode()
        joining = asyncio.create_task(new.join())
        await asked(world)
        assert await old.heartbeat() == RebalanceInProgress.code
        await asyncio.gather(joining, old.join())
        assert (old.generation, old.joined.protocol_name) == (2, "range")
        assert await asyncio.gather(old.sync(), new.sync()) == [
            old.member_id.encode(),
            new.member_id.encode(),
        ]
        assert await old.leave() == NONE
        assert await old.leave() == UnknownMemberId.code

    simulate(scenario, SOON)


def test_an_old_leader_that_comes_back_is_told_that_it_does_not_lead() -> None:
    """It would assign partitions anew in a stable group (KIP-814)."""

    async def scenario(world: World) -> None:
        one = await member(world, "one")
        await together(one)
        old = await member(world, "one", join_group=8)
        joined = await old.join_once()
        assert (joined.error_code, joined.leader) == (NONE, one.member_id)
        assert joined.members == []
        new = await member(world, "one")
        joined = await new.join_once()
        assert (joined.leader, joined.skip_assignment) == (new.member_id, True)
        assert len(joined.members) == 1

    simulate(scenario, SOON)


def test_an_old_client_has_no_rebalance_timeout() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world, join_group=0), await member(world, join_group=0)
        await together(one)
        start = asyncio.get_running_loop().time()
        joining = asyncio.create_task(two.join())
        while not joining.done():
            await asyncio.sleep(1)
            await one.heartbeat()
        assert 9 < asyncio.get_running_loop().time() - start < 12  # its session timeout

    simulate(scenario, SOON)


def test_ids_that_were_given_out_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharegroup.groups.classic.groups.PENDING_MEMBERS_MAX", 2)

    async def scenario(world: World) -> None:
        codes = [(await (await member(world)).join_once()).error_code for _ in range(3)]
        assert codes == [MemberIdRequired.code] * 2 + [GroupMaxSizeReached.code]
        await asyncio.sleep(11)  # their sessions are over
        assert (await (await member(world)).join_once()).error_code == MemberIdRequired.code

    simulate(scenario, SOON)


def test_a_member_has_so_many_protocols() -> None:
    async def scenario(world: World) -> None:
        most = [f"way-{number}" for number in range(GROUP_PROTOCOLS_MAX)]
        one = await member(world)
        assert (
            await one.join_once([*most, "one more"])
        ).error_code == InconsistentGroupProtocol.code
        assert (await one.join_once(most)).error_code == MemberIdRequired.code

    simulate(scenario, SOON)


def test_a_long_client_name_makes_no_long_member_id() -> None:
    async def scenario(world: World) -> None:
        one = await member(world, "i" * 32_767)
        await together(one)
        assert len(one.member_id) == MEMBER_ID_PREFIX_LENGTH_MAX + 37

    simulate(scenario, SOON)
