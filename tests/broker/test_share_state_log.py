"""Durable share state over a real log: snapshots, pruning, several state partitions, failures."""

from __future__ import annotations

import asyncio
import copy
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.configs.broker import load
from sharegroup.broker.coordination.internal_topic import InternalTopic
from sharegroup.broker.coordination.share_state_log import ShareStateLog, StateWrite
from sharegroup.broker.coordination.share_state_shard import StateSettings
from sharegroup.broker.internal_topics import SHARE_GROUP_STATE
from sharegroup.broker.server import Broker
from sharegroup.model.errors import (
    FencedStateEpoch,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
)
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.partitioning import partition_for
from sharegroup.sim import MemoryDisk, SimulatedLoop, simulated_environment
from sharegroup.sim.disk import MemoryFile
from sharegroup.storage.partition_log import LocalPartitionLog
from tests.broker.running import running
from tests.storage.faulty_disk import FaultyDisk

TOPIC_ID = UUID(int=5)
PREFIX = "share.coordinator."
PARTITIONS = PREFIX + "state.topic.num.partitions="
PER_SNAPSHOT = PREFIX + "snapshot.update.records.per.snapshot="
SEGMENT_BYTES = PREFIX + "state.topic.segment.bytes="


def key(number: int, group: str = "g") -> SharePartitionKey:
    return SharePartitionKey(group, TOPIC_ID, number)


def accepted(number: int, first: int, last: int, start: int = 0) -> StateWrite:
    """A leader's change that finishes ``first`` … ``last``."""
    return StateWrite(key(number), 0, -1, start, last - first + 1, (StateBatch(first, last, 2, 1),))


def state_log(broker: Broker, partition: int = 0) -> LocalPartitionLog:
    return broker.parts.topics.log(SHARE_GROUP_STATE, partition)


async def batches(state: ShareStateLog, number: int) -> tuple[StateBatch, ...]:
    return (await state.read(key(number), -1)).batches


async def begin(state: ShareStateLog, *numbers: int) -> None:
    await state.initialize([(key(number), 0) for number in numbers], 0)


def simulate(scenario: Callable[[MemoryDisk], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(MemoryDisk())

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(whole())


async def simulated(disk: MemoryDisk, *options: str) -> Broker:
    broker = await Broker.open(load("", options), simulated_environment(disk), "data")
    await with_topic(broker)
    await broker.listen("127.0.0.1", 0)
    return broker


@asynccontextmanager
async def serving(
    folder: Path, *options: str, disk: FaultyDisk | None = None
) -> AsyncIterator[Broker]:
    async with running(folder, *options, disk=disk) as (broker, _):
        await with_topic(broker)
        yield broker


async def with_topic(broker: Broker) -> None:
    """The topic that the keys are of: state of a topic that is not there does not last."""
    if broker.parts.topics.find_id(TOPIC_ID) is None:
        await broker.parts.store.create_topic("jobs", TOPIC_ID, 12, {})


def run(
    folder: Path,
    scenario: Callable[[Broker], Awaitable[None]],
    *options: str,
    disk: FaultyDisk | None = None,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), serving(folder, *options, disk=disk) as broker:
            await scenario(broker)

    asyncio.run(main())


# -- snapshots, pruning, start


def test_a_start_reads_the_last_snapshots_and_later_updates(tmp_path: Path) -> None:
    options = (PER_SNAPSHOT + "10", SEGMENT_BYTES + "2000")

    async def main() -> None:
        async with serving(tmp_path, *options) as broker:
            await begin(broker.parts.state, 1, 0)
            for offset in range(200):
                await broker.parts.state.write([accepted(0, offset, offset)])
            log = state_log(broker)
            (shard,) = broker.parts.state.shards
            assert await shard.prune() is None, "the other key's snapshot is the first record"
            await broker.parts.state.initialize([(key(1), 7)], 1)
            moved = await shard.prune()
            assert moved == log.log_start_offset == shard.last_pruned_offset
            assert log.log_end_offset - log.log_start_offset <= 12
            assert await shard.prune() is None, "nothing moved since"
            segments = list((tmp_path / "data").rglob(f"{SHARE_GROUP_STATE}-0/*.log"))
            assert len(segments) < 5, "whole segments below the log start are gone"
            change = StateWrite(key(1), 1, -1, 7, 1, (StateBatch(9, 9, 2, 1),))
            await broker.parts.state.write([change])
        async with serving(tmp_path, *options) as broker:
            assert state_log(broker).log_start_offset == moved
            assert await batches(broker.parts.state, 0) == (StateBatch(0, 199, 2, 1),)
            assert await batches(broker.parts.state, 1) == (StateBatch(9, 9, 2, 1),)
            assert await broker.parts.state.read_summary(key(1)) == (1, -1, 7, 1)

    asyncio.run(main())


def test_without_keys_everything_may_be_pruned(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker.parts.state, 0)
        await broker.parts.state.write([accepted(0, 0, 5)])
        await broker.parts.state.delete([key(0), key(1)])
        (shard,) = broker.parts.state.shards
        assert await shard.prune() == state_log(broker).log_end_offset == 3

    run(tmp_path, scenario)


def test_rounds_of_snapshots_and_pruning_bound_the_log_while_it_runs() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker = await simulated(disk, PER_SNAPSHOT + "3")
        await begin(broker.parts.state, 0, 1)
        log = state_log(broker)
        for minute in range(30):
            await broker.parts.state.write([accepted(0, minute, minute)])
            await asyncio.sleep(60)
        # Both keys have snapshots of the last two rounds, and the log begins at one of them.
        assert log.log_start_offset >= log.log_end_offset - 12
        quiet = log.log_end_offset
        await asyncio.sleep(700)
        settled = log.log_end_offset
        assert settled <= quiet + 4, "the last writes are followed by one round of snapshots"
        await asyncio.sleep(7_000)
        assert log.log_end_offset == settled, "with every key cold nothing is written"
        disk.crash()
        again = await simulated(disk)
        assert await batches(again.parts.state, 0) == (StateBatch(0, 29, 2, 1),)
        assert await again.parts.state.knows(key(1))
        await again.close()
        await broker.close()

    simulate(scenario)


class FillingFile(MemoryFile):
    """A file on a disk that may be full."""

    def __init__(self, file: MemoryFile, disk: FillingDisk) -> None:
        super().__init__(file.path, file._content)
        self._disk = disk

    def append(self, data: bytes | Sequence[bytes | memoryview]) -> None:
        if self._disk.full:
            raise OSError(errno.ENOSPC, "No space left on device", self.path)
        super().append(data)


class FillingDisk(MemoryDisk):
    """No log grows while ``full``."""

    full = False

    def open(self, path: str) -> MemoryFile:
        file = super().open(path)
        return FillingFile(file, self) if path.endswith(".log") else file


def test_a_round_that_fails_is_followed_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_: MemoryDisk) -> None:
        disk = FillingDisk()
        broker = await simulated(disk)
        await begin(broker.parts.state, 0)
        await broker.parts.state.write([accepted(0, 0, 3)])
        disk.full = True
        await asyncio.sleep(310)
        assert state_log(broker).log_start_offset == 0
        disk.full = False
        await asyncio.sleep(600)
        assert state_log(broker).log_start_offset == 2, "a cold snapshot replaced what was before"
        assert await batches(broker.parts.state, 0) == (StateBatch(0, 3, 2, 1),)
        await broker.close()

    simulate(scenario)
    assert "share state partition 0, snapshot" in caplog.text


def test_a_log_that_outgrows_its_live_state_is_shortened_at_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        topic = InternalTopic(SHARE_GROUP_STATE, 1, broker.parts.topics, broker.parts.clock)
        settings = StateSettings(updates_per_snapshot=50, records_max=200)
        state = ShareStateLog(topic, settings, broker.parts.clock, lambda _: True)
        work: list[asyncio.Task[None]] = []

        def spawn(coroutine: Coroutine[Any, Any, None]) -> None:
            work.append(asyncio.ensure_future(coroutine))

        state.start(spawn)
        await begin(state, *range(10))
        for offset in range(1_000):
            await state.write([accepted(0, offset, offset)])
        await asyncio.gather(*work)
        log = state_log(broker)
        assert 2 <= len(work) <= 20, "some rounds, not one at each write"
        assert log.log_end_offset - log.log_start_offset < 500
        assert await batches(state, 0) == (StateBatch(0, 999, 2, 1),)
        again = ShareStateLog(topic, settings, broker.parts.clock, lambda _: True)
        assert await batches(again, 0) == (StateBatch(0, 999, 2, 1),)
        assert [await again.knows(key(n)) for n in range(11)] == [True] * 10 + [False]
        state.close()

    run(tmp_path, scenario)


# -- topics that are gone


def test_state_of_a_deleted_topic_is_deleted_whatever_group_it_is_of(tmp_path: Path) -> None:
    options = (PARTITIONS + "2",)

    async def main() -> None:
        async with serving(tmp_path, *options) as broker:
            other = await broker.parts.topics.create("other", 1, {})
            staying = SharePartitionKey("elsewhere", other.topic_id, 0)
            leaving = [key(n, "elsewhere") for n in range(4)]
            await broker.parts.state.initialize([(one, 0) for one in (staying, *leaving)], 0)
            ends = [state_log(broker, p).log_end_offset for p in range(2)]
            await broker.parts.state.forget_missing_topics()
            assert ends == [state_log(broker, p).log_end_offset for p in range(2)], "no record"
            topic = broker.parts.topics.find_id(TOPIC_ID)
            assert topic is not None
            await broker.parts.topics.delete(topic)
            await broker.parts.state.forget_missing_topics()
            assert not any([await broker.parts.state.knows(one) for one in leaving])
        async with running(tmp_path, *options) as (broker, _):
            assert await broker.parts.state.knows(staying)
            assert not any([await broker.parts.state.knows(one) for one in leaving])

    asyncio.run(main())


def test_a_deletion_interrupted_by_a_crash_is_finished_at_the_next_start() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker = await simulated(disk)
        await begin(broker.parts.state, 0)
        topic = broker.parts.topics.find_id(TOPIC_ID)
        assert topic is not None
        await broker.parts.topics.delete(topic)
        disk.crash()
        again = await Broker.open(load("", ()), simulated_environment(disk), "data")
        assert await again.parts.state.knows(key(0))
        await again.listen("127.0.0.1", 0)
        await asyncio.sleep(1)
        assert not await again.parts.state.knows(key(0))
        await again.close()
        await broker.close()

    simulate(scenario)


# -- crash


CRASHED = (PER_SNAPSHOT + "2", SEGMENT_BYTES + "500", PARTITIONS + "2")
NUMBERS = range(4)


async def seen(state: ShareStateLog) -> list[Any]:
    """What there is of each key."""
    return [
        (await state.read_summary(key(n)), await batches(state, n))
        if await state.knows(key(n))
        else None
        for n in NUMBERS
    ]


def steps_of(state: ShareStateLog) -> Iterator[Awaitable[object]]:
    """A life of four keys, with snapshots and pruning in between."""
    yield begin(state, *NUMBERS)
    for turn in range(6):
        yield state.write([accepted(n, turn, turn) for n in NUMBERS])
        yield state.write([accepted(0, 10 + turn, 10 + turn, start=turn)])
        yield from (shard.shorten() for shard in state.shards)
        yield state.read(key(1), turn)
    yield state.delete([key(2)])
    yield state.initialize([(key(3), 50)], 1)
    yield from (shard.shorten() for shard in state.shards)
    yield begin(state, 2)


def test_a_crash_at_every_step_leaves_what_was_answered() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker = await simulated(disk, *CRASHED)
        answered: list[list[Any]] = [[None] * len(NUMBERS)]

        async def script() -> None:
            for step in steps_of(broker.parts.state):
                await step
                answered.append(await seen(broker.parts.state))

        left: list[tuple[int, MemoryDisk]] = []
        running_script = asyncio.ensure_future(script())
        while not running_script.done():
            left.append((len(answered) - 1, copy.deepcopy(disk)))
            await asyncio.sleep(0)
        await running_script
        assert len(left) > 80
        assert state_log(broker).log_start_offset > 10, "there was something to prune"
        for count, survivor in left:
            survivor.crash()
            environment = simulated_environment(survivor)
            after = await Broker.open(load("", CRASHED), environment, "data")
            for number, found in enumerate(await seen(after.parts.state)):
                allowed = [state[number] for state in answered[count : count + 2]]
                assert found in allowed, (count, number)
            await after.close()
        await broker.close()

    simulate(scenario)


# -- several state partitions


def test_the_topic_is_kept_for_ever_in_segments_of_its_own_size(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker.parts.state, 0)
        topic = broker.parts.topics.find(SHARE_GROUP_STATE)
        assert topic is not None
        assert topic.partition_count == 5
        settings = state_log(broker).settings
        assert settings.segment_bytes == 70_000
        assert settings.retention_ms == settings.retention_bytes == -1

    options = (PARTITIONS + "5", SEGMENT_BYTES + "70000", "log.retention.bytes=1")
    run(tmp_path, scenario, *options)


def test_each_state_partition_has_its_own_machine_and_is_pruned_alone(tmp_path: Path) -> None:
    options = (PARTITIONS + "3", PER_SNAPSHOT + "5")

    async def main() -> None:
        async with serving(tmp_path, *options) as broker:
            await begin(broker.parts.state, *range(12))
            homes = [partition_for(key(n), 3) for n in range(12)]
            assert set(homes) == {0, 1, 2}
            for offset in range(40):
                await broker.parts.state.write(
                    [accepted(n, offset, offset) for n in range(12) if homes[n] != 2]
                )
            for shard in broker.parts.state.shards:
                machine = await shard.machine()
                assert [key(n) in machine for n in range(12)] == [
                    home == shard.partition for home in homes
                ]
                machine.check_invariants()
                await shard.prune()
            assert state_log(broker, 0).log_start_offset > 100
            assert state_log(broker, 1).log_start_offset > 100
            assert state_log(broker, 2).log_start_offset == 0, "its snapshots are the first records"
        async with serving(tmp_path, *options) as broker:
            for n in range(12):
                expected = () if homes[n] == 2 else (StateBatch(0, 39, 2, 1),)
                assert await batches(broker.parts.state, n) == expected

    asyncio.run(main())


# -- what fails


def test_one_refused_change_does_not_prevent_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            await begin(broker.parts.state, 0, 1, 2)
            await broker.parts.state.initialize([(key(1), 0)], 4)
            with pytest.raises(FencedStateEpoch):
                await broker.parts.state.write([accepted(n, 5, 9) for n in range(3)])
            with pytest.raises(InvalidRequest):
                await broker.parts.state.write([accepted(7, 5, 9), accepted(0, 10, 12)])
        async with serving(tmp_path) as broker:
            assert await batches(broker.parts.state, 0) == (StateBatch(5, 12, 2, 1),)
            assert await batches(broker.parts.state, 1) == ()
            assert await batches(broker.parts.state, 2) == (StateBatch(5, 9, 2, 1),)

    asyncio.run(main())


def test_a_failed_write_is_undone_and_writes_in_flight_are_not(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker) -> None:
        await begin(broker.parts.state, 0, 1)
        disk.hold = asyncio.Event()
        on_its_way = asyncio.ensure_future(broker.parts.state.write([accepted(0, 0, 4)]))
        await asyncio.sleep(0)
        disk.append_errno = errno.ENOSPC
        failing = asyncio.ensure_future(broker.parts.state.write([accepted(1, 0, 4)]))
        await asyncio.sleep(0)
        disk.append_errno = 0
        # The machine is being read again: who comes now waits for that.
        later = asyncio.ensure_future(broker.parts.state.write([accepted(1, 5, 9)]))
        await asyncio.sleep(0)
        disk.hold.set()
        await on_its_way
        with pytest.raises(KafkaStorageError):
            await failing
        await later
        assert await batches(broker.parts.state, 0) == (StateBatch(0, 4, 2, 1),)
        assert await batches(broker.parts.state, 1) == (StateBatch(5, 9, 2, 1),)

    run(tmp_path, scenario, disk=disk)


def test_a_state_partition_that_cannot_be_synced_does_not_affect_the_others(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker) -> None:
        await begin(broker.parts.state, *range(6))
        broken, whole = (
            [n for n in range(6) if partition_for(key(n), 2) == partition] for partition in (0, 1)
        )
        disk.sync_fails = f"{SHARE_GROUP_STATE}-0"
        with pytest.raises(KafkaStorageError):
            await broker.parts.state.write([accepted(n, 0, 4) for n in range(6)])
        for n in whole:
            assert await batches(broker.parts.state, n) == (StateBatch(0, 4, 2, 1),)
        disk.sync_fails = ""
        for n in broken:
            # The log is out of service until the next start: nothing is told of what it may hold.
            for refused in (
                broker.parts.state.read(key(n), 0),
                broker.parts.state.read_summary(key(n)),
                broker.parts.state.write([accepted(n, 5, 6)]),
            ):
                with pytest.raises(KafkaError):
                    await refused
        await broker.parts.state.write([accepted(n, 5, 9) for n in whole])
        assert await batches(broker.parts.state, whole[0]) == (StateBatch(0, 9, 2, 1),)

    run(tmp_path, scenario, PARTITIONS + "2", disk=disk)


def test_a_state_of_many_ranges_may_be_larger_than_a_client_may_write(tmp_path: Path) -> None:
    ranges = tuple(StateBatch(2 * n, 2 * n, 2, 1) for n in range(60_000))

    async def main() -> None:
        async with serving(tmp_path, PER_SNAPSHOT + "0") as broker:
            await begin(broker.parts.state, 0)
            await broker.parts.state.write([StateWrite(key(0), 0, -1, 0, len(ranges), ranges)])
            assert state_log(broker).statistics().size_bytes > 1_200_000
        async with serving(tmp_path) as broker:
            assert await batches(broker.parts.state, 0) == ranges

    asyncio.run(main())
