"""A batch whose header is damaged while the broker runs, in a partition that members of a consumer
group share (KIP-X): what lies before it and after it is given to them."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.cooperative.hash_split import HASH_MAX
from sharegroup.cooperative.intervals import normal
from sharegroup.model.errors import CorruptMessage
from sharegroup.wire.batch import parse_headers
from sharegroup.wire.messages.fetch import PartitionData
from tests.broker.consumer_wire import EAGER
from tests.broker.group_wire import World, simulate
from tests.broker.test_cooperative_fetch import BATCH, TOPIC, given, group, topic, write
from tests.broker.test_key_ranges import Reader

LENGTH_AT, MAGIC_AT = 8, 16
DAMAGES = {
    "another magic": (MAGIC_AT, 5),
    "a length below zero": (LENGTH_AT, 7),
    "a length of a gigabyte": (LENGTH_AT, 6),
}
"""Byte of the header, and the bit of it that is flipped."""
ALL_BUT_ONE = ((0, HASH_MAX - 1),)
"""Nearly all keys: the broker has to look at each record."""

damages = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


def damage_batch(world: World, base_offset: int, damage: tuple[int, int]) -> None:
    log = world.broker.parts.topics.log(TOPIC, 0)
    path = f"{log.folder}/{0:020d}.log"
    at = 0
    for header in parse_headers(world.disk.read_file(path)):
        if header.base_offset == base_offset:
            break
        at += header.length
    world.disk.flip(path, at + damage[0], damage[1])


def offsets_in(part: PartitionData) -> tuple[tuple[int, int], ...]:
    headers = parse_headers(bytes(part.records or b""))
    return normal((one.base_offset, one.last_offset) for one in headers)


async def reader(world: World, batches: int) -> Reader:
    topic_id = await topic(world, batches)
    return Reader(await world.connect(), topic_id, TOPIC)


@damages
def test_by_key_a_fetch_gets_what_is_before_the_damage(damage: tuple[int, int]) -> None:
    async def scenario(world: World) -> None:
        one = await reader(world, 5)
        damage_batch(world, 3 * BATCH, damage)
        part = await one.fetch(ALL_BUT_ONE)
        assert (part.error_code, offsets_in(part), part.read_up_to) == (0, ((0, 29),), 30)
        for lost in range(30, 40):
            assert (await one.fetch(ALL_BUT_ONE, lost)).error_code == CorruptMessage.code
        assert offsets_in(await one.fetch(ALL_BUT_ONE, 40)) == ((40, 49),)

    simulate(scenario, EAGER)


@damages
def test_by_key_who_has_no_records_before_the_damage_comes_to_it(damage: tuple[int, int]) -> None:
    """The error is about the offset that was asked for. So only who asks for it is told."""

    async def scenario(world: World) -> None:
        one = await reader(world, 5)
        damage_batch(world, 3 * BATCH, damage)
        part = await one.fetch(((0, 0),), wait_ms=500)
        assert (part.error_code, part.records, part.read_up_to) == (0, b"", 30)
        assert not part.without_records
        assert (await one.fetch(((0, 0),), 30)).error_code == CorruptMessage.code

    simulate(scenario, EAGER)


@damages
def test_by_key_a_waiting_fetch_comes_to_new_damage(damage: tuple[int, int]) -> None:
    async def scenario(world: World) -> None:
        one = await reader(world, 5)
        waiting = asyncio.create_task(one.fetch(((0, 0),), 20, wait_ms=20_000))
        await asyncio.sleep(1)  # virtual
        await write(world, 1)
        await asyncio.sleep(1)
        await write(world, 1)
        damage_batch(world, 60, damage)
        part = await waiting
        assert (part.error_code, part.records, part.read_up_to) == (0, b"", 60)

    simulate(scenario, EAGER)


@damages
def test_in_turns_the_damage_is_passed_over(damage: tuple[int, int]) -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world, 5))
        damage_batch(world, 3 * BATCH, damage)
        assert await a.take() == ((0, 29),)
        part = await b.fetch()
        assert given(part) == ((40, 49),)
        assert [(one.first, one.last) for one in part.without_records] == [(30, 39)]
        assert await a.commit((0, 39)) == 40

    simulate(scenario, EAGER)


@damages
def test_in_turns_damage_where_the_log_was_read_to_is_passed_over(damage: tuple[int, int]) -> None:
    """The log remembers where the next read begins, and does not look for that place."""

    async def scenario(world: World) -> None:
        a, _ = await group(world, await topic(world))
        assert await a.take() == ((0, 29),)
        await write(world, 2)
        damage_batch(world, 3 * BATCH, damage)
        assert await a.take() == ((40, 49),)
        assert await a.commit((0, 49)) == 50

    simulate(scenario, EAGER)


@damages
@pytest.mark.parametrize("at", [30, 40])
def test_in_turns_a_retry_gets_what_is_not_damaged_meanwhile(
    damage: tuple[int, int], at: int
) -> None:
    async def scenario(world: World) -> None:
        a, b = await group(world, await topic(world))
        assert await a.take() == ((0, 29),)
        await write(world, 3)
        assert given(await a.fetch(2)) == ((30, 59),), "this answer is lost"
        damage_batch(world, at, damage)
        left = ((40, 59),) if at == 30 else ((30, 39),)
        assert given(await a.fetch(2)) == given(await a.fetch(2)) == left
        assert await b.take() == (() if at == 30 else ((50, 59),))
        assert await a.commit((0, 59)) == 60

    simulate(scenario, EAGER)
