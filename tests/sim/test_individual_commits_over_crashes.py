"""Commits of ranges of offsets over a crash at every step of the disk (KIP-X).

Two clients of a group commit ranges of one partition, and now and then a plain offset, on a disk
that keeps an image of itself at each step. From each image a broker starts again:

* no confirmed range is missing, and no offset counts that nobody has committed;
* no range outlives a plain offset that was committed after it;
* the group goes on.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

import pytest

from sharegroup.cooperative.intervals import Interval, Intervals
from sharegroup.sim import SimulatedLoop
from tests.broker.group_wire import FillingDisk, World
from tests.broker.test_committed_offsets import check
from tests.broker.test_individual_commits import TOPIC, Reader
from tests.sim.test_transactions_over_crashes import WatchedDisk

ROUNDS = 6
COMMITS = 4
LAST = 40
ASKED, CONFIRMED, RESETS, RESET = range(4)
Told = list[tuple[int, Any]]


class Disk(WatchedDisk, FillingDisk):
    """Takes an image at each step."""


class Known(NamedTuple):
    """What the clients know at a moment."""

    start: int
    asked: set[int]
    confirmed: set[int]
    resets_to: int | None
    """A plain offset that is being committed."""


def offsets(ranges: list[Interval]) -> set[int]:
    return {at for first, last in ranges for at in range(first, last + 1)}


def known(told: Told) -> Known:
    start, asked, confirmed, resets_to = 0, set[int](), set[int](), None
    for what, which in told:
        match what:
            case 0:
                asked |= offsets(which)
            case 1:
                confirmed |= offsets(which)
            case 2:
                resets_to = which
            case 3:
                start, asked, confirmed, resets_to = which, set(), set(), None
    return Known(start, asked, confirmed, resets_to)


async def commit_some(world: World, random: Random, told: Told) -> None:
    reader = Reader(world)
    for _ in range(COMMITS):
        ranges = []
        for _ in range(random.randint(1, 3)):
            first = random.randint(0, LAST)
            ranges.append((first, first + random.randint(0, 4)))
        told.append((ASKED, ranges))
        await reader.commit_ranges(*ranges)
        told.append((CONFIRMED, ranges))


async def play(disk: Disk, random: Random, told: Told) -> None:
    world = World(disk, [])
    await world.start()
    await world.create_topic(TOPIC, 1)
    reader = Reader(world)
    await reader.commit({(TOPIC, 0): 0})
    disk.images.clear()
    for number in range(ROUNDS):
        await asyncio.gather(*(commit_some(world, random, told) for _ in range(2)))
        if number % 2:
            start = random.randint(0, LAST // 2)
            told.append((RESETS, start))
            await reader.commit({(TOPIC, 0): start})
            told.append((RESET, start))
    await world.stop()


async def look(image: Any, at: Known) -> None:
    disk = FillingDisk()
    disk._files, disk._folders = deepcopy(image._files), set(image._folders)
    world = World(disk, [])
    await world.start()
    reader = Reader(world)
    stable, ranges = await reader.committed()
    committed = set(range(at.start, stable)) | offsets(list(ranges))
    if at.resets_to is None:
        assert {one for one in at.confirmed if one >= at.start} <= committed
        assert committed <= at.asked
    elif (stable, ranges) != (at.resets_to, ()):
        assert committed <= at.asked
    check(world)
    await reader.commit_ranges((0, 10 * LAST))
    assert await reader.committed() == (10 * LAST + 1, ())
    check(world)
    await world.stop()


@pytest.mark.parametrize("seed", range(3))
def test_commits_of_ranges_over_crashes(seed: int) -> None:
    told: Told = []
    disk = Disk(told)  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(play(disk, Random(seed), told))
    assert len(disk.images) > 50
    for image in disk.images:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(look(image.disk, known(told[: image.told])))


async def go_back(disk: Disk, *, merges: bool) -> None:
    """Commit ranges, and then a lower offset in a transaction. Images are of its end."""
    world = World(disk, [])
    await world.start()
    await world.create_topic(TOPIC, 1)
    reader = Reader(world)
    await reader.commit_ranges((45, 47), (60, 60), start=43)
    await reader.commit_in_transaction({(TOPIC, 0): 3})
    if merges:
        await reader.commit_ranges((48, 50))
    disk.images.clear()
    await reader.end(committed=True)
    await world.stop()


async def look_after_going_back(image: Any, before: tuple[int, Intervals]) -> int:
    disk = FillingDisk()
    disk._files, disk._folders = deepcopy(image._files), set(image._folders)
    world = World(disk, [])
    await world.start()
    offset, ranges = await Reader(world).committed()
    assert (offset, ranges) in (before, (before[0], ()), (3, ())), "ranges hide records"
    check(world)
    await world.stop()
    return offset


@pytest.mark.parametrize("merges", [False, True])
def test_a_transaction_that_moves_the_group_back_over_crashes(merges: bool) -> None:
    disk = Disk([])
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(go_back(disk, merges=merges))
    found = []
    for image in disk.images:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            before = (43, ((45, 50 if merges else 47), (60, 60)))
            found.append(runner.run(look_after_going_back(image.disk, before)))
    assert (found[0], found[-1]) == (43, 3)
