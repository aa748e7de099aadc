"""Offset commits and rebalances, in both protocols, over a crash at every step of the disk.

Members play once, on a disk that keeps an image of itself at each step (see
test_transactions_over_crashes). From each image a broker starts again, and the members go on with
what they had been told by then:

* no committed offset that was confirmed is lost or moves back;
* a member that was told an epoch, or a synced generation, is still known;
* no partition has two members at any time, by what they are told;
* the members come to a group in which each partition has a member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from typing import Any

import pytest

from sharegroup.model.errors import ERRORS, IllegalGeneration, RebalanceInProgress
from sharegroup.sim import SimulatedLoop
from tests.broker import classic_wire, consumer_wire
from tests.broker.classic_wire import CLASSIC, ClassicMember
from tests.broker.consumer_wire import EAGER, GROUP, held
from tests.broker.group_wire import FillingDisk, World
from tests.broker.offset_wire import OffsetClient, Place
from tests.sim.test_transactions_over_crashes import WatchedDisk

TOPIC = "jobs"
PARTITIONS = 4
OPTIONS = [EAGER, "group.initial.rebalance.delay.ms=0"]
PLACES: list[Place] = [(TOPIC, partition) for partition in range(PARTITIONS)]
INTERVAL_S = 5
ROUNDS = 12
"""Heartbeats of each member after which a group is at rest: longer than a session without one."""
Told = list[tuple[Any, ...]]
JOINED, LEAVING, COMMITTING, COMMITTED, SYNCED = range(5)


class Disk(WatchedDisk, FillingDisk):
    """Takes an image at each step."""


def started_from(image: Any) -> FillingDisk:
    disk = FillingDisk()
    disk._files, disk._folders = deepcopy(image._files), set(image._folders)
    return disk


class Members:
    """Members of the consumer protocol: their epochs, and what they hold."""

    def __init__(self, world: World, told: Told) -> None:
        self.world = world
        self.told = told
        self.epochs: dict[str, int] = {}
        self.held: dict[str, set[int]] = {}
        self._in_full: set[str] = set()
        """Who says everything with the next heartbeat, as clients do when an answer was lost."""

    def restore(self) -> None:
        """Take over what members were told."""
        for what, *more in self.told:
            if what == JOINED:
                member, epoch, partitions = more
                self.epochs[member], self.held[member] = epoch, set(partitions)
            elif what == LEAVING:  # it holds nothing, and does not come back
                del self.epochs[more[0]], self.held[more[0]]
        self._in_full = set(self.epochs)

    async def beat(self, member: str) -> None:
        """Join, or go on; give up what is not assigned any more, and only then take the rest."""
        if member not in self.epochs:
            answer = await consumer_wire.join(self.world, member, [TOPIC])
        else:
            topic = self.world.broker.parts.topics.find(TOPIC)
            assert topic is not None
            mine = sorted(self.held[member])
            more = {}
            if member in self._in_full:
                more = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
                self._in_full.discard(member)
            answer = await consumer_wire.beat(
                self.world,
                member,
                self.epochs[member],
                owned={topic.topic_id: mine} if mine else {},
                **more,
            )
        assert answer.error_code == 0, (member, ERRORS[answer.error_code])
        had = self.held.get(member, set())
        if answer.assignment is not None:
            had = {p for parts in held(answer.assignment).values() for p in parts}
        self.epochs[member], self.held[member] = answer.member_epoch, had
        self.told.append((JOINED, member, answer.member_epoch, sorted(had)))
        everyone = [p for partitions in self.held.values() for p in partitions]
        assert len(everyone) == len(set(everyone)), self.held

    async def leave(self, member: str) -> None:
        epoch = self.epochs.pop(member)
        self.held.pop(member)
        self.told.append((LEAVING, member))
        answer = await consumer_wire.beat(self.world, member, -1)
        assert answer.error_code == 0, epoch

    async def settle(self) -> None:
        for _ in range(ROUNDS):
            await asyncio.sleep(INTERVAL_S)
            for member in list(self.epochs):
                await self.beat(member)

    def check_at_rest(self) -> None:
        everyone = sorted(p for partitions in self.held.values() for p in partitions)
        assert everyone == (list(range(PARTITIONS)) if self.held else []), self.held


async def commit(world: World, told: Told, group: str, offset: int, **who: Any) -> None:
    """Commit ``offset`` to all places, as that member."""
    told.append((COMMITTING, group, offset))
    codes = await OffsetClient(world, group).commit(dict.fromkeys(PLACES, offset), **who)
    assert set(codes.values()) == {0}, codes
    told.append((COMMITTED, group, offset))


async def play_consumer(world: World, told: Told) -> None:
    members = Members(world, told)

    async def committed(member: str, offset: int) -> None:
        who = {"epoch": members.epochs[member], "member": member}
        await commit(world, told, GROUP, offset, **who)

    await members.beat("a")
    await committed("a", 10)
    await members.beat("b")
    await committed("a", 20)
    await members.settle()
    await committed("b", 30)
    await members.beat("c")
    await members.settle()
    await members.leave("a")
    await members.settle()
    members.check_at_rest()
    await committed("c", 40)


async def check_consumer(world: World, told: Told) -> None:
    members = Members(world, list(told))
    members.restore()
    await members.settle()
    members.check_at_rest()
    await members.beat("new")
    await members.settle()
    members.check_at_rest()
    assert members.held["new"]


async def regroup(old: Sequence[ClassicMember], *new: ClassicMember) -> None:
    """All join, as clients do: old members when they hear of it; then they sync."""

    async def rejoin(one: ClassicMember) -> None:
        for _ in range(60):
            code = await one.heartbeat()
            if code:
                break
            await asyncio.sleep(1)
        assert code in (RebalanceInProgress.code, IllegalGeneration.code), ERRORS[code]
        await one.join()

    joining = [one.join() for one in new]
    await asyncio.wait_for(asyncio.gather(*joining, *map(rejoin, old)), 600)  # of virtual time

    async def sync(one: ClassicMember) -> None:
        assert await one.sync() == one.member_id.encode()

    await asyncio.gather(*map(sync, [*old, *new]))


async def play_classic(world: World, told: Told) -> None:
    async def grouped(old: Sequence[ClassicMember], *new: ClassicMember) -> None:
        await regroup(old, *new)
        told.extend((SYNCED, one.member_id, one.generation) for one in [*old, *new])

    async def committed(one: ClassicMember, offset: int) -> None:
        await commit(world, told, CLASSIC, offset, epoch=one.generation, member=one.member_id)

    first, second = [await classic_wire.member(world) for _ in range(2)]
    await grouped([], first)
    await committed(first, 10)
    await grouped([first], second)
    await committed(second, 20)
    told.append((LEAVING, first.member_id))
    assert await first.leave() == 0
    await grouped([second])
    await committed(second, 30)


async def check_classic(world: World, told: Told) -> None:
    known: dict[str, int] = {}
    for what, *more in told:
        if what == SYNCED:
            known[more[0]] = more[1]
        elif what == LEAVING:
            known.pop(more[0], None)
    newest = max((more[1] for what, *more in told if what == SYNCED), default=0)
    members = []
    for name, generation in known.items():
        one = await classic_wire.member(world)
        one.member_id, one.generation = name, generation
        code = await one.heartbeat()
        expected = (0, RebalanceInProgress.code, IllegalGeneration.code)
        assert code in expected, (name, generation, ERRORS[code])
        members.append(one)
    old = list(members)
    members.append(await classic_wire.member(world))
    await regroup(old, members[-1])
    assert {one.generation for one in members} == {members[0].generation}
    assert members[0].generation > newest


def highest(told: Told, wanted: int, group: str) -> int:
    return max((more[1] for what, *more in told if what == wanted and more[0] == group), default=-1)


async def check_offsets(world: World, told: Told) -> None:
    for group in (GROUP, CLASSIC):
        found = await OffsetClient(world, group).fetch(*PLACES)
        offsets = set(found.values())
        assert len(offsets) == 1, f"a commit is torn: {found}"
        assert highest(told, COMMITTED, group) <= offsets.pop() <= highest(told, COMMITTING, group)


Play = Callable[[World, Told], Awaitable[None]]


@pytest.mark.parametrize(
    ("play", "check"),
    [(play_consumer, check_consumer), (play_classic, check_classic)],
    ids=["consumer", "classic"],
)
def test_groups_over_a_crash_at_every_step(play: Play, check: Play) -> None:
    told: Told = []
    disk = Disk(told)

    async def original() -> None:
        world = World(disk, OPTIONS)
        await world.start()
        await world.create_topic(TOPIC, PARTITIONS)
        disk.images.clear()
        await play(world, told)
        await world.stop()

    async def restarted(disk: FillingDisk, known: Told) -> None:
        world = World(disk, OPTIONS)
        await world.start()
        await check_offsets(world, known)
        await check(world, known)
        await check_offsets(world, known)
        await world.stop()

    run(original())
    assert len({image.told for image in disk.images}) >= 7
    different = {
        (image.told, *sorted((path, bytes(c.data)) for path, c in image.disk._files.items())): image
        for image in disk.images
    }
    for image in different.values():
        run(restarted(started_from(image.disk), told[: image.told]))


def run(main: Awaitable[None]) -> None:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(_awaited(main))


async def _awaited(main: Awaitable[None]) -> None:
    await main
