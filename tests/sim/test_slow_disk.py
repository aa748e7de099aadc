"""A disk that takes half a second for a sync: producers wait, in bounds, and nobody is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sharegroup.model.environment import DiskFile
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker import classic_wire, consumer_wire
from tests.broker.consumer_wire import EAGER
from tests.broker.group_wire import TIMEOUT_MS, FillingDisk, World
from tests.sim.test_groups_over_crashes import run

SYNC_S = 0.5
TOPIC = "foo"
PRODUCERS = 20
REQUESTS = 10
BATCH = encode_batch([(None, b"x" * 10_000)], timestamp_ms=1_767_225_600_000)


class SlowDisk(FillingDisk):
    """Every sync takes :data:`SYNC_S` of virtual time."""

    slow = False
    rounds = 0

    async def sync(self, files: Sequence[DiskFile]) -> None:
        if self.slow:
            self.rounds += 1
            await asyncio.sleep(SYNC_S)
        await super().sync(files)


def test_a_slow_disk_holds_up_producers_and_nobody_else() -> None:
    disk = SlowDisk()

    async def produce(world: World, loop: asyncio.AbstractEventLoop) -> list[float]:
        """Requests on a connection of its own; how long each took."""
        connection = await world.connect(produce=12)
        took = []
        for _ in range(REQUESTS):
            began = loop.time()
            data = [PartitionProduceData(0, BATCH)]
            request = ProduceRequest(
                None, -1, 30_000, [TopicProduceData(TOPIC, NULL_TOPIC_ID, data)]
            )
            answer = await connection.send(apis.PRODUCE, request, timeout_ms=TIMEOUT_MS)
            assert answer.responses[0].partition_responses[0].error_code == 0
            took.append(loop.time() - began)
        connection.close()
        return took

    async def beats(world: World, epoch: int, loop: asyncio.AbstractEventLoop) -> list[float]:
        """Heartbeats as long as producers work; how long each took."""
        took = []
        for _ in range(30):
            began = loop.time()
            answer = await consumer_wire.beat(world, "a", epoch)
            assert answer.error_code == 0
            took.append(loop.time() - began)
            await asyncio.sleep(0.1)
        return took

    async def main() -> None:
        world = World(disk, [EAGER, "group.initial.rebalance.delay.ms=0"])
        await world.start()
        await world.create_topic(TOPIC, 1)
        joined = await consumer_wire.join(world, "a", [TOPIC])
        member = await classic_wire.member(world)
        await member.join()
        await member.sync()
        loop = asyncio.get_running_loop()
        disk.slow = True
        lags, *times = await asyncio.gather(
            beats(world, joined.member_epoch, loop),
            *(produce(world, loop) for _ in range(PRODUCERS)),
        )
        assert max(lags) < 0.1, "a heartbeat writes nothing, and waits for no sync"
        assert await member.heartbeat() == 0
        every = [one for taken in times for one in taken]
        assert len(every) == PRODUCERS * REQUESTS
        assert max(every) <= 4 * SYNC_S, "producers share a sync"
        assert disk.rounds <= 4 * REQUESTS
        disk.slow = False
        await world.stop()

    run(main())


CROWD = 200
PIPELINED = 20
QUEUED_BYTES = 4 << 20
"""The crowd sends ten times as much: as 200 connections with 100 requests of 100 kB each do to a
broker with the default."""


async def crowded(world: World) -> None:
    """One of the crowd: all of its requests at once, each answered."""
    connection = await world.connect(produce=12)
    data = [PartitionProduceData(0, BATCH)]
    request = ProduceRequest(None, -1, 30_000, [TopicProduceData(TOPIC, NULL_TOPIC_ID, data)])
    answers = await asyncio.gather(
        *(
            connection.send(apis.PRODUCE, request, timeout_ms=100 * TIMEOUT_MS)
            for _ in range(PIPELINED)
        )
    )
    for answer in answers:
        assert answer.responses[0].partition_responses[0].error_code == 0
    connection.close()


async def memory_used(world: World, crowd: asyncio.Task[None]) -> list[int]:
    """Bytes of requests, every ten milliseconds while the crowd produces."""
    used = []
    while not crowd.done():
        used.append(world.broker.connections.requests.used)
        await asyncio.sleep(0.01)
    return used


def test_a_crowd_that_pipelines_on_a_slow_disk_stays_in_its_memory() -> None:
    """Nobody is cut off, and heartbeats and commits are answered meanwhile."""
    disk = SlowDisk()

    async def commits(world: World, crowd: asyncio.Task[None]) -> list[float]:
        """Commits while the crowd produces; how long each took."""
        loop = asyncio.get_running_loop()
        partition = OffsetCommitRequestPartition(0, 1)
        found = world.broker.parts.topics.find(TOPIC)
        assert found is not None
        topics = [OffsetCommitRequestTopic(TOPIC, found.topic_id, [partition])]
        request = OffsetCommitRequest("g", topics=topics)
        connection = await world.connect()
        took = []
        while not crowd.done():
            began = loop.time()
            answer = await connection.send(apis.OFFSET_COMMIT, request, timeout_ms=TIMEOUT_MS)
            assert answer.topics[0].partitions[0].error_code == 0
            took.append(loop.time() - began)
        connection.close()
        return took

    async def beats(world: World, epoch: int, crowd: asyncio.Task[None]) -> list[float]:
        loop = asyncio.get_running_loop()
        took = []
        while not crowd.done():
            began = loop.time()
            assert (await consumer_wire.beat(world, "a", epoch)).error_code == 0
            took.append(loop.time() - began)
            await asyncio.sleep(0.1)
        return took

    async def main() -> None:
        options = [
            EAGER,
            f"queued.max.request.bytes={QUEUED_BYTES}",
            "socket.request.max.bytes=1000000",
        ]
        world = World(disk, options)
        await world.start()
        await world.create_topic(TOPIC, 1)
        joined = await consumer_wire.join(world, "a", [TOPIC])
        disk.slow = True

        async def all_of_them() -> None:
            await asyncio.gather(*(crowded(world) for _ in range(CROWD)))

        crowd = asyncio.create_task(all_of_them())
        committed, lags, used, _ = await asyncio.gather(
            commits(world, crowd),
            beats(world, joined.member_epoch, crowd),
            memory_used(world, crowd),
            crowd,
        )
        counts = world.broker.parts.counters.statistics()
        assert counts["request_memory_full", ""] > 0, "the crowd had to wait"
        assert not [name for name, _ in counts if name == "connections_dropped"]
        assert QUEUED_BYTES // 2 < max(used) <= QUEUED_BYTES + (1 << 20)
        assert len(lags) > 10
        assert max(lags) <= SYNC_S, "it waits for the commit before it at most, not for room"
        assert len(committed) > 3
        assert max(committed) <= 4 * SYNC_S
        await world.stop()

    run(main())
