"""Committed offsets of a classic group that has members."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.model.errors import (
    GroupSubscribedToTopic,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicId,
)
from tests.broker.classic_wire import CLASSIC, ClassicMember, describe, member, together
from tests.broker.group_wire import World, simulate
from tests.broker.offset_wire import OffsetClient

A, KEPT = ("jobs", 0), ("kept", 0)
JOBS = b"\0\0" + b"\0\0\0\1" + b"\0\4jobs" + b"\xff\xff\xff\xff"
"""What a consumer of the topic "jobs" tells."""


def test_who_commits_is_checked_before_the_metadata() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 1)
        first = await member(world)
        await together(first)
        client = OffsetClient(world, CLASSIC)
        client.metadata = "x" * 5000
        nowhere = ("gone", 0)
        assert await client.commit({A: 1, nowhere: 1}, epoch=1, member="stranger") == {
            A: UnknownMemberId.code,
            nowhere: UnknownTopicId.code,
        }
        codes = await client.commit({A: 1}, epoch=first.generation, member=first.member_id)
        assert codes == {A: OffsetMetadataTooLarge.code}
        assert await client.fetch(A) == {A: -1}

    simulate(scenario)


@pytest.mark.parametrize(
    ("protocol_type", "answer"),
    [("connect", NonEmptyGroup.code), ("consumer", {A: GroupSubscribedToTopic.code})],
)
def test_offsets_are_not_deleted_under_members_whose_topics_are_unknown(
    protocol_type: str, answer: object
) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 1)
        client = OffsetClient(world, CLASSIC)
        assert await client.commit({A: 3}) == {A: 0}
        first = await member(world)
        await first.join(protocol_type=protocol_type)
        assert await client.delete(A) == answer
        assert await client.fetch(A) == {A: 3}
        assert await first.leave() == 0
        assert await client.delete(A) == {A: 0}

    simulate(scenario)


def expiring(delay_ms: int = 0) -> list[str]:
    """Offsets expire after 9 minutes, and are looked at every 10 seconds."""
    return [
        "offsets.retention.minutes=9",
        "offsets.retention.check.interval.ms=10000",
        "connections.max.idle.ms=3600000",
        f"group.initial.rebalance.delay.ms={delay_ms}",
    ]


NEARLY_S, PAST_S = 9 * 60 - 15, 30
"""Just before the offsets expire, and just after it."""


async def committed(world: World, **kind: str) -> tuple[ClassicMember, OffsetClient]:
    """The only member of a group, which has committed something; and a client of the group."""
    for topic in ("jobs", "kept"):
        await world.create_topic(topic, 1)
    one, client = await member(world), OffsetClient(world, CLASSIC)
    one.session_ms, one.metadata = 30 * 60_000, JOBS
    await one.join(**kind)
    await one.sync()
    codes = await client.commit({A: 3, KEPT: 4}, epoch=one.generation, member=one.member_id)
    assert codes == {A: 0, KEPT: 0}
    return one, client


async def state_of(world: World) -> str:
    return str((await describe(world)).group_state)


def test_no_offset_expires_while_all_members_restart() -> None:
    async def scenario(world: World) -> None:
        one, client = await committed(world)
        await asyncio.sleep(NEARLY_S)
        assert await one.leave() == 0
        one.member_id = ""
        joining = asyncio.create_task(one.join())
        await asyncio.sleep(PAST_S)
        assert await state_of(world) == "PreparingRebalance"
        assert await client.fetch() == {A: 3, KEPT: 4}
        await joining
        await one.sync()
        await asyncio.sleep(PAST_S)
        assert await client.fetch() == {A: 3}, "nobody subscribes to the other topic"

    simulate(scenario, *expiring(delay_ms=50_000))


def test_no_offset_expires_while_the_leader_assigns() -> None:
    async def scenario(world: World) -> None:
        one, client = await committed(world)
        await asyncio.sleep(NEARLY_S)
        await one.join()
        await asyncio.sleep(PAST_S)
        assert await state_of(world) == "CompletingRebalance"
        assert await client.fetch() == {A: 3, KEPT: 4}
        await one.sync()
        await asyncio.sleep(PAST_S)
        assert await client.fetch() == {A: 3}

    simulate(scenario, *expiring())


def test_no_offset_expires_under_members_that_are_no_consumers() -> None:
    async def scenario(world: World) -> None:
        one, client = await committed(world, protocol_type="connect")
        await asyncio.sleep(2 * NEARLY_S)
        assert await state_of(world) == "Stable"
        assert await client.fetch() == {A: 3, KEPT: 4}
        assert await one.leave() == 0
        await asyncio.sleep(NEARLY_S)
        assert await client.fetch() == {A: 3, KEPT: 4}
        await asyncio.sleep(PAST_S)
        assert await client.fetch() == {}

    simulate(scenario, *expiring())
