"""Members of a classic group while the broker restarts, crashes and finds its disk full. When all
is quiet again, they agree.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from sharegroup.model.errors import (
    NONE,
    ClusterAuthorizationFailed,
    FencedInstanceId,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from tests.broker.classic_wire import ClassicMember, describe, member
from tests.broker.group_wire import World, simulate

MEMBERS = 5
ROUNDS = 25
QUIET_S = 90
OWN_TIME_S = 120


class Life:
    """One client, which joins again after every error, over a new connection if need be."""

    def __init__(self, world: World, instance_id: str | None) -> None:
        self.world = world
        self.instance_id = instance_id
        self.member: ClassicMember | None = None
        self.assignment: bytes | None = None
        self.handed_out: list[tuple[int, str]] = []
        """(generation, leader) of each assignment."""

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(OWN_TIME_S):
                    await self.once()
            except (KafkaError, TimeoutError):
                # The connection is gone; the id and the generation are not.
                await asyncio.sleep(0.3)
                old = self.member
                try:
                    self.member = await member(self.world, self.instance_id)
                except KafkaError:
                    self.member = old
                    continue
                if old is not None:
                    self.member.member_id = old.member_id
            await asyncio.sleep(1)

    async def once(self) -> None:
        """Join and sync unless it has an assignment; else say that it is alive."""
        one = self.member
        if one is None:
            one = self.member = await member(self.world, self.instance_id)
        if self.assignment is not None:
            code = await one.heartbeat()
            if code == NONE:
                return
            self.assignment = None
            assert code != ClusterAuthorizationFailed.code
            if code in (UnknownMemberId.code, FencedInstanceId.code):
                one.member_id = ""
        answer = await one.join_once()
        if answer.error_code == MemberIdRequired.code:
            answer = await one.join_once()
        if answer.error_code in (UnknownMemberId.code, FencedInstanceId.code):
            one.member_id = ""
        if answer.error_code != NONE:
            return
        given = {m.member_id: m.member_id.encode() for m in answer.members} if one.leads else None
        synced = await one.sync_once(None if answer.skip_assignment else given)
        if synced.error_code == NONE:
            self.assignment = bytes(synced.assignment)
            self.handed_out.append((one.generation, one.joined.leader))
        elif synced.error_code == UnknownMemberId.code:
            one.member_id = ""
        else:
            assert synced.error_code != RebalanceInProgress.code or one.member_id


async def trouble(world: World, chance: random.Random, lives: Sequence[Life]) -> None:
    """One thing that happens to a broker."""
    await asyncio.sleep(chance.choice([0.05, 0.5, 3, 12]))
    what = chance.choice(["restart", "crash", "full", "nothing"])
    if what == "restart":
        await world.restart()
    elif what == "crash":
        await world.crash()
        for life in lives:
            if life.member is not None:
                life.member.disconnect()
    elif what == "full":
        world.disk.full_for = "__consumer_offsets"
        await asyncio.sleep(chance.choice([0.2, 4]))
        world.disk.full_for = ""


@pytest.mark.parametrize("seed", range(4))
def test_members_agree_when_all_is_quiet(seed: int) -> None:
    async def scenario(world: World) -> None:
        chance = random.Random(seed)
        lives = [Life(world, f"i{n}" if n < 2 else None) for n in range(MEMBERS)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(life.run()) for life in lives]
            for _ in range(ROUNDS):
                await trouble(world, chance, lives)
                world.broker.parts.classic_groups.groups.check_invariants()
            await asyncio.sleep(QUIET_S)
            found = await asyncio.wait_for(describe(world), 10)
            for task in tasks:
                task.cancel()
        members = [life.member for life in lives if life.member is not None]
        assert found.group_state == "Stable"
        assert {m.member_id for m in found.members} == {one.member_id for one in members}
        assert len({one.generation for one in members}) == 1
        for life, one in zip(lives, members, strict=True):
            if not one.instance_id:
                assert life.assignment == one.member_id.encode()
        every = [handed for life in lives for handed in life.handed_out]
        assert len(every) > MEMBERS
        for life in lives:
            generations = [generation for generation, _ in life.handed_out]
            assert generations == sorted(generations)

    simulate(scenario, "group.initial.rebalance.delay.ms=100")
