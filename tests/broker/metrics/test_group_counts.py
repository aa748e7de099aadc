"""What the metrics say of classic groups and consumer groups, on virtual time."""

from __future__ import annotations

import asyncio
import re

from sharegroup.broker.metrics.reader import MetricsReader
from tests.broker.classic_wire import asked, together
from tests.broker.classic_wire import member as classic_member
from tests.broker.consumer_wire import EAGER, beat, join
from tests.broker.group_wire import World, simulate
from tests.broker.offset_wire import OffsetClient


async def counts(world: World, kind: str) -> tuple[dict[str, int], int]:
    """The number of groups in each state that there is one in, and the rebalances."""
    body, _ = await MetricsReader(world.broker.parts).text()
    name, text = f"sharegroup_{kind}_group", body.decode()
    states = re.findall(rf'^{name}s{{state="(\w+)"}} (\d+)', text, re.MULTILINE)
    (rebalances,) = re.findall(rf"^{name}_rebalances_total (\d+)", text, re.MULTILINE)
    assert len(states) == 4
    return {state: int(count) for state, count in states if int(count)}, int(rebalances)


def test_groups_are_counted_by_type_and_state() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("foo", 2)
        assert await counts(world, "consumer") == ({}, 0)
        await together(await classic_member(world))
        first = await join(world, "a", group="one")
        await join(world, "a", group="two")
        assert await counts(world, "consumer") == ({"Stable": 2}, 2)
        await join(world, "b", group="one")
        assert await counts(world, "consumer") == ({"Stable": 1, "Reconciling": 1}, 3)
        await beat(world, "a", first.member_epoch)
        await beat(world, "a", -1, group="two")
        assert await counts(world, "consumer") == ({"Empty": 1, "Reconciling": 1}, 4)
        await beat(world, "b", -1, group="one")
        assert await counts(world, "consumer") == ({"Empty": 1, "Assigning": 1}, 5)
        assert await counts(world, "classic") == ({"Stable": 1}, 1)

    simulate(scenario, EAGER)


async def number(world: World, name: str) -> int:
    """The value of a metric without labels."""
    body, _ = await MetricsReader(world.broker.parts).text()
    (found,) = re.findall(rf"^sharegroup_{name} (\d+)", body.decode(), re.MULTILINE)
    return int(found)


def test_offsets_are_counted() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("jobs", 2)
        client = OffsetClient(world)
        await client.commit({("jobs", 0): 1, ("jobs", 1): 1})
        await client.commit({("jobs", 1): 2})
        assert await number(world, "committed_offsets") == 2
        assert await number(world, "offset_commits_total") == 3
        assert await number(world, "offset_expirations_total") == 0
        await asyncio.sleep(30 * 60)
        assert await number(world, "committed_offsets") == 0
        assert await number(world, "offset_expirations_total") == 2

    simulate(scenario, "offsets.retention.minutes=9")


def test_joins_that_wait_are_counted() -> None:
    async def scenario(world: World) -> None:
        joining = asyncio.create_task((await classic_member(world)).join())
        await asked(world)
        assert await number(world, "classic_group_waiting_requests") == 1
        await joining
        assert await number(world, "classic_group_waiting_requests") == 0

    simulate(scenario)
