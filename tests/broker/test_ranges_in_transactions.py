"""Transactions that commit offsets of a group with ranges behind its stable offset (KIP-X)."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.model.errors import InvalidProducerEpoch, UnstableOffsetCommit
from tests.broker.group_wire import World, simulate
from tests.broker.test_committed_offsets import check
from tests.broker.test_individual_commits import TOPIC, Reader

AT = (TOPIC, 0)


@pytest.mark.parametrize("offset", [3, 46, 80])
def test_a_plain_offset_of_an_aborted_transaction_leaves_the_ranges(offset: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit_ranges((45, 49), (60, 60), start=40)
        assert await reader.commit_in_transaction({AT: offset}) == {AT: 0}
        await reader.end(committed=False)
        for again in (world.restart, world.crash, world.crash):
            assert await reader.committed() == (40, ((45, 49), (60, 60)))
            check(world)
            await again()

    simulate(scenario)


def test_a_plain_offset_of_a_fenced_producer_leaves_the_ranges() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader, other = Reader(world), Reader(world, "others")
        await reader.commit_ranges((45, 49), start=40)
        assert await other.commit_in_transaction({AT: 1}, (7, 1)) == {AT: 0}
        fenced = await reader.commit_in_transaction({AT: 3}, (7, 0))
        assert fenced == {AT: InvalidProducerEpoch.code}
        for _ in range(2):
            assert await reader.committed() == (40, ((45, 49),))
            await world.crash()

    simulate(scenario)


@pytest.mark.parametrize(
    ("offset", "then"), [(3, (3, ())), (42, (42, ((45, 49), (60, 60)))), (45, (50, ((60, 60),)))]
)
def test_a_plain_offset_takes_the_ranges_with_it_only_backwards(
    offset: int, then: tuple[int, tuple[tuple[int, int], ...]]
) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit_ranges((45, 49), start=40)
        await reader.commit_in_transaction({AT: offset})
        assert await reader.commit_ranges((60, 60)) == (0, 40), "while the transaction is open"
        await reader.end(committed=True)
        for again in (world.restart, world.crash, world.crash):
            assert await reader.committed() == then
            check(world)
            await again()

    simulate(scenario)


def test_a_transaction_commits_ranges_one_after_the_other() -> None:
    """It does not wait for what it has committed itself."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        reader = Reader(world)
        await reader.commit({AT: 45})
        assert await reader.commit_ranges_in_transaction((45, 49)) == (0, 50)
        assert await reader.commit_ranges_in_transaction((50, 54)) == (0, 55)
        assert await reader.commit_ranges_in_transaction((45, 49)) == (0, 50), "told again"
        gap = await reader.commit_ranges_in_transaction((57, 59))
        assert gap == (UnstableOffsetCommit.code, -1)
        another = await reader.commit_ranges_in_transaction((55, 59), producer=(8, 0))
        assert another == (UnstableOffsetCommit.code, -1)
        assert await reader.committed() == (45, ())
        await reader.end(committed=True)
        assert await reader.committed() == (55, ())

    simulate(scenario)


def test_a_transaction_waits_in_a_group_that_has_committed_nothing() -> None:
    """As commits of ranges outside transactions it says where the group begins."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        a, b = Reader(world), Reader(world)
        of_b = {"start": 40, "producer": (8, 0)}
        waits = asyncio.create_task(b.commit_ranges_in_transaction((45, 49), **of_b))
        await asyncio.sleep(1)
        assert world.broker.parts.ranges.waiting == 1
        assert await a.commit_ranges_in_transaction((40, 42), start=40) == (0, 43)
        assert await a.commit_ranges_in_transaction((43, 44), start=40) == (0, 45)
        await a.end(committed=False)
        assert await waits == (UnstableOffsetCommit.code, -1), "the group has nothing of 40 to 44"
        assert await a.commit_ranges_in_transaction((40, 44), start=40) == (0, 45)
        await a.end(committed=True)
        assert await b.commit_ranges_in_transaction((45, 49), **of_b) == (0, 50)
        await b.end(committed=True, producer=(8, 0))
        assert await b.committed() == (50, ())
        other = Reader(world, "others")
        assert await other.commit_ranges_in_transaction((0, 9)) == (0, 10), "from the beginning"

    simulate(scenario)


def test_transactions_whose_offsets_interleave_wait_for_each_other() -> None:
    """As docs/keys.md says: one of them has to end before it can go on."""

    async def scenario(world: World) -> None:
        await world.create_topic(TOPIC, 1)
        a, b = Reader(world), Reader(world)
        await a.commit({AT: 45})
        assert await a.commit_ranges_in_transaction((45, 49)) == (0, 50)
        both = await asyncio.gather(
            a.commit_ranges_in_transaction((55, 59)),
            b.commit_ranges_in_transaction((50, 54), producer=(8, 0)),
        )
        assert set(both) == {(UnstableOffsetCommit.code, -1)}
        await a.end(committed=False)
        assert await a.commit_ranges_in_transaction((45, 49)) == (0, 50)
        await a.end(committed=True)
        assert await b.commit_ranges_in_transaction((50, 54), producer=(8, 0)) == (0, 55)

    simulate(scenario)
