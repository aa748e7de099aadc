"""Classic groups over the wire: rebalances, static members, restarts. Virtual time."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from sharegroup.model.errors import (
    NONE,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NonEmptyGroup,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from sharegroup.wire import apis
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.classic_wire import CLASSIC, asked, describe, listed, member, together
from tests.broker.group_wire import World, simulate

SOON = "group.initial.rebalance.delay.ms=100"


def test_one_member_joins_and_gets_its_assignment() -> None:
    async def scenario(world: World) -> None:
        one = await member(world)
        first = await one.join_once()
        assert first.error_code == MemberIdRequired.code
        assert first.member_id.startswith("client-id-")
        joined = await one.join()
        assert (joined.generation_id, joined.protocol_name, joined.leader) == (
            1,
            "range",
            one.member_id,
        )
        assert [(m.member_id, m.metadata) for m in joined.members] == [(one.member_id, b"m")]
        assert (await describe(world)).group_state == "CompletingRebalance"
        assert await one.sync() == one.member_id.encode()
        assert await one.heartbeat() == NONE
        found = await describe(world)
        assert (found.group_state, found.protocol_type, found.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        (described,) = found.members
        assert (described.member_id, described.client_id) == (one.member_id, "client-id")
        assert (described.member_metadata, described.member_assignment) == (
            b"m",
            one.member_id.encode(),
        )
        assert await listed(world) == {CLASSIC: ("consumer", "Stable", "classic")}

    simulate(scenario, SOON)


def test_a_second_member_makes_the_first_join_again() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one)
        joining = asyncio.create_task(two.join())
        await asked(world)
        assert await one.heartbeat() == RebalanceInProgress.code
        assert (await describe(world)).group_state == "PreparingRebalance"
        assert await one.heartbeat() == RebalanceInProgress.code
        await asyncio.gather(one.join(), joining)
        assert (one.generation, two.generation) == (2, 2)
        assert one.leads
        assert not two.leads
        assert not two.joined.members
        given = await asyncio.gather(two.sync(), one.sync())
        assert given == [two.member_id.encode(), one.member_id.encode()]

    simulate(scenario, SOON)


def test_a_member_leaves_and_the_last_one_leaves_an_empty_group() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one, two)
        assert await two.leave() == NONE
        assert await two.heartbeat() == UnknownMemberId.code
        assert await one.heartbeat() == RebalanceInProgress.code
        assert await together(one) == [one.member_id.encode()]
        assert one.generation == 2
        assert await world.delete_groups(CLASSIC) == {CLASSIC: NonEmptyGroup.code}
        assert await one.leave() == NONE
        assert (await describe(world)).group_state == "Empty"
        await world.crash()
        assert (await describe(world)).group_state == "Empty"
        assert await world.delete_groups(CLASSIC) == {CLASSIC: NONE}
        await world.crash()
        assert (await describe(world)).error_code == GroupIdNotFound.code
        assert await world.delete_groups(CLASSIC) == {CLASSIC: GroupIdNotFound.code}

    simulate(scenario, SOON)


def test_a_silent_member_is_removed() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one, two)
        for _ in range(3):
            await asyncio.sleep(5)
            code = await one.heartbeat()
        assert code == RebalanceInProgress.code
        await together(one)
        assert (one.generation, len(one.joined.members)) == (2, 1)
        assert await two.heartbeat() == UnknownMemberId.code

    simulate(scenario, SOON)


def test_who_does_not_join_again_in_time_is_removed() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one)
        joining = asyncio.create_task(two.join())
        for _ in range(12):  # alive, but busy beyond the rebalance timeout
            await asyncio.sleep(5)
            await one.heartbeat()
        assert (await joining).leader == two.member_id
        assert await one.heartbeat() == UnknownMemberId.code
        assert await two.sync() == two.member_id.encode()

    simulate(scenario, SOON)


def test_a_leader_that_never_syncs_is_removed() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await asyncio.gather(one.join(), two.join())
        leader, other = (one, two) if one.leads else (two, one)
        syncing = asyncio.create_task(other.sync_once())
        for _ in range(13):
            await asyncio.sleep(5)
            await leader.heartbeat()
        assert (await syncing).error_code == RebalanceInProgress.code
        await together(other)
        assert other.leads
        assert len(other.joined.members) == 1

    simulate(scenario, SOON)


def test_the_first_rebalance_waits_for_more_members() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        loop = asyncio.get_running_loop()
        start = loop.time()
        joining = asyncio.create_task(one.join())
        await asyncio.sleep(2)
        await asyncio.gather(joining, two.join())
        assert (one.generation, two.generation) == (1, 1)
        assert 5.9 < loop.time() - start < 6.5

    simulate(scenario)


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world, "one"), await member(world)
        await together(one, two)
        again = await member(world, "one")
        joined = await again.join_once()
        assert (joined.error_code, joined.generation_id) == (NONE, 1)
        assert again.member_id != one.member_id
        assert joined.skip_assignment == (joined.leader == again.member_id)
        assert bytes((await again.sync_once()).assignment) == one.member_id.encode()
        assert await one.heartbeat() == FencedInstanceId.code
        assert await two.heartbeat() == NONE
        await world.crash()
        back = await member(world, "one")
        back.member_id, back.generation = again.member_id, again.generation
        assert await back.heartbeat() == NONE
        removal = LeaveGroupRequest(group_id=CLASSIC, members=[MemberIdentity("", "one", "admin")])
        (left,) = (await world.send(apis.LEAVE_GROUP, removal)).members
        assert (left.error_code, left.group_instance_id) == (NONE, "one")
        assert await back.heartbeat() == UnknownMemberId.code

    simulate(scenario, SOON)


def test_members_stay_over_a_crash_and_the_generation_goes_on() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        before = await together(one, two)
        await world.crash()
        connections = [await world.connect(), await world.connect()]
        one._connection, two._connection = connections
        assert await one.heartbeat() == NONE
        assert [await one.sync(), await two.sync()] == before
        leader = one if one.leads else two
        other = two if leader is one else one
        joining = asyncio.create_task(leader.join())
        await asked(world)
        assert await other.heartbeat() == RebalanceInProgress.code
        await asyncio.gather(joining, other.join())
        assert (one.generation, two.generation) == (2, 2)
        await asyncio.gather(one.sync(), two.sync())
        old = one.generation
        one.generation = 1
        assert await one.heartbeat() == IllegalGeneration.code
        one.generation = old
        await world.restart()
        one._connection = await world.connect()
        assert await one.heartbeat() == NONE

    simulate(scenario, SOON)


def test_assignments_that_cannot_be_written_are_not_handed_out() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        before = await together(one)
        joining = asyncio.create_task(two.join())
        await asked(world)
        await asyncio.gather(one.join(), joining)
        leader, other = (one, two) if one.leads else (two, one)
        syncing = asyncio.create_task(other.sync_once())
        await asked(world)
        world.disk.full_for = "__consumer_offsets"
        refused = await leader.sync_once({leader.member_id: b"x", other.member_id: b"x"})
        assert refused.error_code != NONE
        world.disk.full_for = ""
        assert (await syncing).error_code == NotCoordinator.code
        assert (await describe(world)).members[0].member_assignment == before[0]
        await together(one)
        assert one.generation == 2

    simulate(scenario, SOON)


def test_a_stopping_broker_answers_who_waits() -> None:
    async def scenario(world: World) -> None:
        one = await member(world)
        joining = asyncio.create_task(one.join_once())
        await joining
        joining = asyncio.create_task(one.join_once())
        await asked(world)
        start = asyncio.get_running_loop().time()
        await world.restart()
        assert (await joining).error_code == NotCoordinator.code
        assert asyncio.get_running_loop().time() - start < 1

    simulate(scenario)


def test_the_log_is_rewritten_while_a_group_rebalances() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        before = await together(one)
        joining = asyncio.create_task(two.join())
        await asked(world)
        runtime = world.broker._group_runtimes.of(CLASSIC)
        await runtime.rewrite()
        assert runtime.deleted_before
        assert await one.heartbeat() == RebalanceInProgress.code
        await world.crash()
        joining.cancel()
        (kept,) = (await describe(world)).members
        assert kept.member_assignment == before[0]

    simulate(scenario, SOON)


def test_a_pending_member_that_never_comes_is_forgotten() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one)
        await two.join_once()
        joining = asyncio.create_task(one.join())  # a leader's join: everybody again
        await asyncio.sleep(9)
        assert not joining.done()
        await joining
        two.joined = None
        assert (await two.join_once()).error_code == UnknownMemberId.code

    simulate(scenario, SOON)


def test_the_protocol_that_most_members_like_is_chosen() -> None:
    async def scenario(world: World) -> None:
        members = [await member(world) for _ in range(3)]
        likes = (["a", "b", "c"], ["b", "a"], ["b", "a", "d"])
        await asyncio.gather(*(one.join(names) for one, names in zip(members, likes, strict=True)))
        assert {one.joined.protocol_name for one in members} == {"b"}
        await asyncio.gather(*(one.sync() for one in members))
        other = await member(world)
        refused = await other.join_once(["a"], protocol_type="connect")
        assert refused.error_code == InconsistentGroupProtocol.code

    simulate(scenario, SOON)


def test_an_empty_group_without_offsets_is_deleted_in_time() -> None:
    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one)
        await asyncio.sleep(5)
        assert await one.leave() == NONE
        await world.create_topic("foo", 1)
        commit = OffsetCommitRequest(
            group_id="with-offsets",
            topics=[
                OffsetCommitRequestTopic(
                    name="foo", partitions=[OffsetCommitRequestPartition(0, 1)]
                )
            ],
        )
        connection = await world.connect(offset_commit=9)
        await connection.send(apis.OFFSET_COMMIT, commit, timeout_ms=1_000)
        await two.join(group="with-offsets")
        await asyncio.sleep(60)
        assert set(await listed(world)) == {CLASSIC, "with-offsets"}
        await asyncio.sleep(600)
        assert set(await listed(world)) == {"with-offsets"}
        await world.crash()
        assert set(await listed(world)) == {"with-offsets"}

    simulate(scenario, SOON)


def test_deleting_a_group_deletes_its_offsets() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        one = await member(world)
        await together(one)
        parts = [OffsetCommitRequestPartition(0, 1)]
        commit = OffsetCommitRequest(
            CLASSIC,
            one.generation,
            one.member_id,
            topics=[OffsetCommitRequestTopic(name="foo", partitions=parts)],
        )
        connection = await world.connect(offset_commit=9)
        answer = await connection.send(apis.OFFSET_COMMIT, commit, timeout_ms=1_000)
        assert answer.topics[0].partitions[0].error_code == NONE
        await one.leave()
        assert (await describe(world)).group_state == "Empty"
        assert await world.delete_groups(CLASSIC) == {CLASSIC: NONE}
        assert not world.broker.parts.group_registry.ids()
        await world.crash()
        assert not world.broker.parts.group_registry.ids()

    simulate(scenario, SOON)


def test_a_join_that_waits_holds_its_metadata_once() -> None:
    metadata_bytes = 500_000

    async def scenario(world: World) -> None:
        one, two = await member(world), await member(world)
        await together(one)
        await two.join_once()  # learns its id
        two.metadata = bytes(metadata_bytes)  # the client's, which does not count
        gc.collect()
        tracemalloc.start()
        joining = asyncio.ensure_future(two.join())
        await asked(world)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert metadata_bytes <= held < 1.3 * metadata_bytes
        await asyncio.gather(one.join(), joining)

    simulate(scenario, SOON)
