"""The production broker on virtual time: half a minute of lock passes in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sharegroup.broker.configs.broker import load
from sharegroup.broker.server import Broker
from sharegroup.model.errors import KafkaError
from sharegroup.sim import MemoryDisk, SimulatedLoop, SimulationStalled, simulated_environment
from tests.broker.by_hand import GROUP, Member, connect, topic_with_records

OPTIONS = ["group.share.min.record.lock.duration.ms=1000"]


async def start(disk: MemoryDisk, *options: str) -> tuple[Broker, int]:
    broker = await Broker.open(load("", [*OPTIONS, *options]), simulated_environment(disk), "data")
    _, port = await broker.listen("127.0.0.1", 0)
    return broker, port


def simulate(scenario: Callable[[MemoryDisk], Awaitable[None]]) -> float:
    """Run to the end; the virtual seconds that passed."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario(MemoryDisk()))  # type: ignore[arg-type]
        return runner.get_loop().time()


def test_a_thirty_second_lock_expires_in_milliseconds_of_real_time() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, 10)
        first, second = await Member.join(port, "first"), await Member.join(port, "second")
        assert await first.fetch(topic_id) == [(0, 9, 1)]
        assert await first.acknowledge(topic_id, 0, 4, kind=1) == 0
        assert await second.fetch(topic_id) == []
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        # A waiting fetch is woken by the lock that expires, not by its own end.
        assert await second.fetch(topic_id, wait_ms=60_000) == [(5, 9, 2)]
        assert 29.9 <= loop.time() - before_s <= 30.2
        assert await first.acknowledge(topic_id, 5, 5, kind=1) == 121, "a late answer is refused"
        await broker.close()

    assert simulate(scenario) > 30  # virtual seconds


def test_files_have_the_virtual_time_of_their_last_write() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        clock = simulated_environment(disk).clock
        await asyncio.sleep(5)
        file = disk.open("f")
        file.append(b"x")
        file.sync()
        written_ms = clock.wall_ms()
        await asyncio.sleep(5)
        assert file.modified_ms() == written_ms
        assert disk.survivor().open("f").modified_ms() == written_ms
        assert disk.successor().open("f").modified_ms() == written_ms
        file.truncate(0)
        assert file.modified_ms() == written_ms + 5_000

    simulate(scenario)


def test_a_failed_sync_is_remembered_over_the_death_of_the_process() -> None:
    """By the system: what it should have made durable never will be."""
    disk = MemoryDisk()
    file = disk.open("f")
    file.append(b"durable")
    file.sync()
    file.append(b" lost")
    file.sync_failed()
    later = disk.successor()
    again = later.open("f")
    assert again.pread(100, 0) == b"durable lost"
    again.sync()
    assert later.survivor().open("f").pread(100, 0) == b"durable"


def test_accepted_records_are_not_redelivered_after_a_power_failure() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, 10)
        member = await Member.join(port, "first")
        assert await member.fetch(topic_id) == [(0, 9, 1)]
        assert await member.acknowledge(topic_id, 2, 6, kind=1) == 0
        assert await member.acknowledge(topic_id, 7, 7, kind=2) == 0
        disk.crash()

        again, port = await start(disk)
        member = await Member.join(port, "second")
        assert await member.fetch(topic_id) == [(0, 1, 1), (7, 7, 2), (8, 9, 1)]
        for led in again.parts.share_partitions.all():
            led.core.check_invariants()
        await again.close()
        await broker.close()

    simulate(scenario)


def test_a_silent_member_expires_and_its_group_stays() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        await Member.join(port, "first")
        assert len(broker.parts.groups.groups.describe(GROUP).members) == 1
        await asyncio.sleep(46)
        assert broker.parts.groups.groups.describe(GROUP).members == ()
        await broker.close()

    simulate(scenario)


def test_a_wait_that_nothing_can_end_raises() -> None:
    async def scenario(_: MemoryDisk) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationStalled):
        simulate(scenario)


def test_connecting_to_a_port_without_a_listener_fails() -> None:
    async def scenario(_: MemoryDisk) -> None:
        with pytest.raises(KafkaError, match="Connection refused"):
            await connect(9)

    simulate(scenario)
