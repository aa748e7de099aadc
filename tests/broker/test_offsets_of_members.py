"""Committed offsets of a classic group that has members."""

from __future__ import annotations

import pytest

from sharegroup.model.errors import (
    GroupSubscribedToTopic,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicId,
)
from tests.broker.classic_wire import CLASSIC, member, together
from tests.broker.group_wire import World, simulate
from tests.broker.offset_wire import OffsetClient

A = ("jobs", 0)


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
