"""Many members with much metadata join one classic group at once. Virtual time."""

from __future__ import annotations

import asyncio

from sharegroup.model.errors import NONE
from sharegroup.sim.loop import SimulatedLoop
from tests.broker.classic_wire import describe, member, together
from tests.broker.group_wire import World, simulate

MEMBERS = 12
METADATA = bytes(400_000)
ROOM = 1_000_000
SOON = "group.initial.rebalance.delay.ms=100"
SHORT_OF_ROOM = (
    f"socket.request.max.bytes={ROOM}",
    f"queued.max.request.bytes={ROOM}",
    f"queued.max.response.bytes={ROOM}",
)
"""The metadata of all, and the leader's answer, is several times that."""


def test_joins_that_wait_do_not_keep_others_from_joining() -> None:
    async def scenario(world: World) -> None:
        members = [await member(world) for _ in range(MEMBERS)]
        for each in members:
            each.metadata = METADATA
        # An id that is not used within the session timeout would be UNKNOWN_MEMBER_ID.
        await together(*members)
        assert {each.generation for each in members} == {1}
        (leader,) = (each for each in members if each.leads)
        assert [len(told.metadata) for told in leader.joined.members] == [len(METADATA)] * MEMBERS
        assert set(await asyncio.gather(*(each.heartbeat() for each in members))) == {NONE}
        assert world.broker.connections.requests.used < ROOM

    simulate(scenario, *SHORT_OF_ROOM)


def test_a_member_whose_request_lies_in_its_socket_is_not_expired() -> None:
    async def scenario(world: World) -> None:
        one = await member(world)
        await together(one)
        heartbeat = asyncio.create_task(one.heartbeat())
        await asyncio.sleep(0)  # it is sent
        # The broker does not get to its sockets for longer than the session timeout.
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.held_up(one.session_ms / 1000 + 1)
        assert await heartbeat == NONE
        assert (await describe(world)).group_state == "Stable"

    simulate(scenario, SOON)
