"""Members of a consumer group that read in turns (KIP-X), after what the group had committed was
deleted or reset: all of it is given out again, without a restart of the broker."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from sharegroup.cooperative.intervals import normal
from sharegroup.wire import apis
from sharegroup.wire.messages import offset_delete
from tests.broker import consumer_wire
from tests.broker.consumer_wire import EAGER, GROUP
from tests.broker.group_wire import World, simulate
from tests.broker.test_cooperative_fetch import SMALL, TOPIC, Taker, given, group, topic

OUTSIDE = ("", -1)
"""Who commits for a group without members: an administrator."""


async def single_commits(world: World) -> UUID:
    """Five batches of ten; the second is committed, and the group has no members any more."""
    topic_id = await topic(world, 5)
    a, b = await group(world, topic_id)
    await a.commit((0, -1))  # the group begins at 0
    assert given(await a.fetch(bytes_max=SMALL)) == ((0, 9),)
    assert given(await b.fetch(bytes_max=SMALL)) == ((10, 19),)
    await b.commit((10, 19))
    await leave(a, b)
    return topic_id


async def leave(*members: Taker) -> None:
    for member in members:
        member.epoch = -1
        await member.beat()


async def deleted_group(world: World) -> None:
    assert await world.delete_groups(GROUP) == {GROUP: 0}


async def deleted_offsets(world: World) -> None:
    place = offset_delete.OffsetDeleteRequestPartition(0)
    topics = [offset_delete.OffsetDeleteRequestTopic(TOPIC, [place])]
    answer = await world.send(apis.OFFSET_DELETE, offset_delete.OffsetDeleteRequest(GROUP, topics))
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)


async def expired_offsets(world: World) -> None:
    await asyncio.sleep(11 * 60)


def reset_to(offset: int) -> Callable[[World], Awaitable[None]]:
    async def reset(world: World) -> None:
        assert await consumer_wire.commit(world, *OUTSIDE, offset) == 0

    return reset


FORGETS = {
    "the group is deleted": (deleted_group, 0),
    "its offsets are deleted": (deleted_offsets, 0),
    "its offsets expire": (expired_offsets, 0),
    "it is reset to where it is": (reset_to(0), 0),
    "it is reset to a later offset": (reset_to(5), 5),
    "it is reset past what it had committed": (reset_to(30), 30),
}


@pytest.mark.parametrize("begins", [True, False], ids=["said", "unsaid"])
@pytest.mark.parametrize(("forget", "first"), FORGETS.values(), ids=FORGETS)
def test_all_records_from_there_on_are_given(
    forget: Callable[[World], Awaitable[None]], first: int, begins: bool
) -> None:
    async def scenario(world: World) -> None:
        topic_id = await single_commits(world)
        await forget(world)
        members = await group(world, topic_id, "cd")
        if begins:  # as a client of ours says it first; it counts only if nothing is committed
            await members[0].commit((0, -1))
        taken = []
        while some := await members[len(taken) % 2].take():
            taken += some
        assert normal(taken) == ((first, 49),)

    simulate(
        scenario,
        EAGER,
        "offsets.retention.minutes=9",
        "offsets.retention.check.interval.ms=10000",
        "log.retention.ms=-1",
    )


def test_a_group_that_is_reset_back_between_two_turns_begins_anew() -> None:
    """Nobody has read since its offset went on: the turns have not followed it."""

    async def scenario(world: World) -> None:
        topic_id = await topic(world)
        a, _ = members = await group(world, topic_id)
        await a.commit((0, -1))
        assert await a.take() == ((0, 29),)
        assert await a.commit((0, 19)) == 20
        await leave(*members)
        await reset_to(0)(world)
        c, _ = await group(world, topic_id, "cd")
        assert await c.take() == ((0, 29),)

    simulate(scenario, EAGER)


def test_a_plain_commit_of_another_protocol_gives_the_rest_again() -> None:
    async def scenario(world: World) -> None:
        topic_id = await single_commits(world)
        joined = await consumer_wire.join(world, "plain")
        await consumer_wire.beat(world, "plain", joined.member_epoch, owned={})
        assert await consumer_wire.commit(world, "plain", joined.member_epoch, 3) == 0
        await consumer_wire.beat(world, "plain", -1)
        c, _ = await group(world, topic_id, "cd")
        assert await c.take() == ((3, 49),)

    simulate(scenario, EAGER)


def test_commits_under_way_are_not_taken_for_forgotten_ones() -> None:
    """Then the members would lose their turns, and get the same records again."""

    async def scenario(world: World) -> None:
        topic_id = await topic(world, 60)
        a, b = await group(world, topic_id)
        a.world = await beside(world)
        await a.commit((0, -1))
        taken: list[tuple[int, int]] = []
        work: list[tuple[int, int]] = []
        for _ in range(30):
            part, _ = await asyncio.gather(b.fetch(bytes_max=SMALL), a.commit(*work))
            assert part.error_code == 0
            b.turn += 1
            taken += given(part)
            other, _ = await asyncio.gather(a.fetch(bytes_max=SMALL), b.commit(*given(part)))
            assert other.error_code == 0
            a.turn += 1
            taken += (work := list(given(other)))
        assert len(taken) == 60
        assert normal(taken) == ((0, 599),)

    simulate(scenario, EAGER)


async def beside(world: World) -> World:
    """The same broker by another connection: a connection's requests are answered in turn."""
    other = copy.copy(world)
    other._connection = await world.connect()
    return other
