"""Machines of several kinds in one partition of ``__consumer_offsets``: rewriting it for one kind
keeps the records of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from sharegroup.broker.configs.broker import load
from sharegroup.broker.coordination.internal_topic import InternalTopic
from sharegroup.broker.coordination.runtime import Growth, Runtime
from sharegroup.broker.coordination.share_groups_machine import ShareGroupsMachine
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.server import Broker
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.groups.share.heartbeat import ShareHeartbeat
from sharegroup.groups.share.records import ShareRecord
from sharegroup.groups.topics import KnownTopic, TopicsImage
from sharegroup.sim import MemoryDisk, SimulatedLoop, simulated_environment
from tests.broker.tally_machine import TallyMachine

IMAGE = TopicsImage({"foo": KnownTopic(UUID(int=7), 2)})


def new_share_groups() -> ShareGroupsMachine:
    groups = ShareGroups(lambda _: GroupSettings())
    return ShareGroupsMachine(groups, lambda: IMAGE, lambda _: None)


def runtime_over(broker: Broker) -> Runtime:
    topic = InternalTopic(CONSUMER_OFFSETS, 1, broker.parts.topics, broker.parts.clock)
    machines = [new_share_groups, TallyMachine]
    return Runtime(topic.partition(0), machines, broker.parts.clock, Growth(lambda: 20, 2))


async def open_broker(disk: MemoryDisk) -> Broker:
    return await Broker.open(load("", ()), simulated_environment(disk), "data")


async def heartbeat(runtime: Runtime, group: str, epoch: int) -> None:
    request = ShareHeartbeat(
        group_id=group,
        member_id="m",
        member_epoch=epoch,
        subscribed_topics=("foo",) if epoch == 0 else None,
    )

    def decide(machine: ShareGroupsMachine) -> tuple[None, Sequence[ShareRecord]]:
        return None, machine.groups.heartbeat(request, IMAGE, 0).records

    await runtime.commit(ShareGroupsMachine, decide)


async def add(runtime: Runtime, name: str) -> None:
    await runtime.commit(TallyMachine, lambda tally: tally.add(name))


def simulate(scenario: Callable[[MemoryDisk], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(MemoryDisk())

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(whole())


def test_rewriting_keeps_the_live_records_of_every_machine() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker = await open_broker(disk)
        runtime = runtime_over(broker)
        runtime.start(broker.spawn)
        await heartbeat(runtime, "quiet", 0)
        for name in ("a", "b", "b"):
            await add(runtime, name)
        for _ in range(50):
            await heartbeat(runtime, "busy", 0)
            await heartbeat(runtime, "busy", -1)
            await asyncio.sleep(0.001)  # rewriting goes on in the background
        log = broker.parts.topics.log(CONSUMER_OFFSETS, 0)
        assert log.log_start_offset > 100, "the records of both kinds were written anew"
        groups = runtime.machine(ShareGroupsMachine).groups.table
        before = {group: list(groups.records(group)) for group in ("quiet", "busy")}
        disk.crash()
        broker = await open_broker(disk)
        again = runtime_over(broker)
        await again.load()
        groups = again.machine(ShareGroupsMachine).groups.table
        assert {group: list(groups.records(group)) for group in before} == before
        assert again.machine(TallyMachine).numbers() == {"a": 1, "b": 2}
        await broker.close()

    simulate(scenario)


def test_pruning_keeps_the_records_of_machines_without_offsets() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker = await open_broker(disk)
        runtime = runtime_over(broker)
        await heartbeat(runtime, "quiet", 0)
        for _ in range(5):
            await add(runtime, "a")
        assert await runtime.prune() is None
        assert broker.parts.topics.log(CONSUMER_OFFSETS, 0).log_start_offset == 0
        await broker.close()

    simulate(scenario)
