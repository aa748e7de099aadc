"""``__consumer_offsets`` stays as short as the groups are, and a crash at any point loses nothing
that was answered.
"""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.broker.coordination import runtime
from sharegroup.groups.share.records import ShareRecord
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.storage.partition_log import LocalPartitionLog
from tests.broker.group_wire import World, simulate

EVERY_20 = "group.share.records.per.rewrite=20"


def log_of(world: World) -> LocalPartitionLog:
    return world.broker.parts.topics.log("__consumer_offsets", 0)


def all_records(world: World) -> dict[str, list[ShareRecord]]:
    """All there is to say of every group."""
    groups = world.broker.parts.groups.groups
    return {group: list(groups.records(group)) for group in sorted(groups.group_ids())}


async def come_and_go(world: World, times: int, group: str = "busy") -> None:
    for _ in range(times):
        await world.heartbeat("m", 0, ["foo"], group)
        await world.heartbeat("m", -1, group=group)


async def rounds_end(world: World) -> None:
    """Let the background finish: virtual time stands still while it has work."""
    await asyncio.sleep(0.001)


def test_the_log_is_bounded_by_live_groups() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        await world.heartbeat("m", 0, ["foo"], "quiet-1")
        await come_and_go(world, 1)
        for number in range(2, 6):
            await world.heartbeat("m", 0, ["foo"], f"quiet-{number}")
        await come_and_go(world, 50)
        await rounds_end(world)
        log = log_of(world)
        assert log.log_end_offset > 400
        before = all_records(world)
        live = sum(map(len, before.values()))
        assert log.log_end_offset - log.log_start_offset <= 4 * live + 20
        await world.crash()
        assert log_of(world).log_start_offset > 0
        assert all_records(world) == before

    simulate(scenario, EVERY_20)


def test_live_records_alone_do_not_start_a_rewrite() -> None:
    """With many live groups a rewrite costs more, so it comes after more."""

    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        for number in range(40):
            await world.heartbeat("m", 0, ["foo"], f"g{number}")
        await rounds_end(world)
        log = log_of(world)
        start = log.log_start_offset
        assert start > 0
        await come_and_go(world, 5)
        await rounds_end(world)
        assert log.log_start_offset == start

    simulate(scenario, EVERY_20)


def test_a_deleted_group_stays_deleted_after_rewrites() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await come_and_go(world, 1, "gone")
        assert await world.delete_groups("gone") == {"gone": 0}
        await come_and_go(world, 10)
        await rounds_end(world)
        await world.crash()
        assert (await world.describe("gone")).error_code == GroupIdNotFound.code

    simulate(scenario, EVERY_20)


@pytest.mark.parametrize("turns", [*range(5, 100, 19), *range(100, 3_000, 97)])
def test_a_crash_at_any_point_keeps_what_was_answered(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "KEYS_PER_TURN", 1)  # rounds that take many turns

    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        members: dict[str, str] = {}
        in_flight: set[str] = set()

        async def live(group: str) -> None:
            for number in range(1_000):
                in_flight.add(group)
                epoch = -1 if group in members else 0
                member = members.get(group) or f"m{number}"
                answer = await world.heartbeat(member, epoch, ["foo"], group)
                assert answer.error_code == 0
                if epoch == 0:
                    members[group] = member
                else:
                    del members[group]
                in_flight.discard(group)

        for number in range(3):
            await world.heartbeat("m", 0, ["foo"], f"quiet-{number}")
        quiet = {g: records for g, records in all_records(world).items() if g not in members}
        tasks = [asyncio.create_task(live(f"g{number}")) for number in range(8)]
        for _ in range(turns):
            await asyncio.sleep(0)
        world.disk.crash()
        answered = dict(members)
        unsure = set(in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await world.start()
        world.broker.parts.groups.groups.check_invariants()
        after = all_records(world)
        assert {group: after[group] for group in quiet} == quiet
        for number in range(8):
            group = f"g{number}"
            if group not in unsure:
                found = [
                    m.member_id for m in world.broker.parts.groups.groups.describe(group).members
                ]
                assert found == ([answered[group]] if group in answered else [])

    simulate(scenario, EVERY_20, "group.share.assignment.interval.ms=0")


def test_a_rewrite_on_a_full_disk_leaves_the_old_records() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 1)
        await world.heartbeat("m", 0, ["foo"], "quiet")
        await come_and_go(world, 1)
        world.disk.full_for = "__consumer_offsets"
        await world.heartbeat("n", 0, ["foo"], "refused")
        world.disk.full_for = ""
        await come_and_go(world, 20)
        await rounds_end(world)
        await world.crash()
        assert [m.member_id for m in (await world.describe("quiet")).members] == ["m"]
        assert (await world.describe("refused")).error_code == GroupIdNotFound.code

    simulate(scenario, EVERY_20)


def test_groups_over_several_partitions() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        for number in range(12):
            await come_and_go(world, 3, f"g{number}")
            await world.heartbeat("m", 0, ["foo"], f"g{number}")
        await rounds_end(world)
        logs = [world.broker.parts.topics.log("__consumer_offsets", number) for number in range(3)]
        assert all(log.log_start_offset > 0 for log in logs)
        before = all_records(world)
        await world.crash()
        assert all_records(world) == before

    simulate(scenario, EVERY_20, "offsets.topic.num.partitions=3")
