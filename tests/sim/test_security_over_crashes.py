"""Credentials and quotas over a crash at every step of the disk: what was confirmed is there, and
nothing else but the change that was being made.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from random import Random
from typing import Any

from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.broker.coordination.security_store import SecurityStore
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism
from sharegroup.sim import SimulatedLoop
from sharegroup.wire.internal.security import QuotaChange, ScramChange, SecurityRecord
from tests.broker.group_wire import FillingDisk, World
from tests.sim.test_individual_commits_over_crashes import Disk

CHANGES = 25
State = tuple[dict[Any, Any], dict[Any, Any]]


def some_change(random: Random, number: int) -> SecurityRecord:
    gone = random.random() < 0.3
    if random.random() < 0.5:
        salt = number.to_bytes(4, "big")
        credential = ScramCredential(
            salt=salt, stored_key=b"s", server_key=b"k", iterations=4096 + number
        )
        user = random.choice(["alice", "bob"])
        return ScramChange(user, ScramMechanism.SHA_512, None if gone else credential)
    return QuotaChange((("user", "alice"),), random.choice("xyz"), None if gone else number)


def shown(machine: SecurityMachine) -> State:
    return dict(machine.credentials), dict(machine.quotas)


async def play(disk: Disk, told: list[tuple[int, Any]]) -> list[State]:
    """The states after each number of changes. ``told`` has one entry when a change begins, and
    one when it is confirmed."""
    world, random, naive = World(disk, []), Random(1), SecurityMachine()
    await world.start()
    store: SecurityStore = world.broker.parts.security
    heard: list[State] = []
    store.changed.append(lambda: heard.append(shown(store.state)))
    states = [shown(naive)]
    for number in range(CHANGES):
        change = some_change(random, number)
        naive.apply(change)
        states.append(shown(naive))
        told.append((0, number))
        await store.change(lambda _, change=change: (None, [change]))  # type: ignore[misc]
        told.append((1, number))
        assert heard[-1] == states[-1]
    await world.stop()
    return states


async def found_on(image: Any) -> State:
    disk = FillingDisk()
    disk._files, disk._folders = deepcopy(image._files), set(image._folders)
    world = World(disk, [])
    await world.start()
    state = shown(world.broker.parts.security.state)
    await world.stop()
    return state


def test_a_confirmed_change_outlives_every_crash() -> None:
    told: list[tuple[int, Any]] = []
    disk = Disk(told)  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        states = runner.run(play(disk, told))
    assert len(disk.images) > CHANGES
    for image in disk.images:
        begun, confirmed = (sum(what == one for what, _ in told[: image.told]) for one in (0, 1))
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            assert runner.run(found_on(image.disk)) in states[confirmed : begun + 1]
