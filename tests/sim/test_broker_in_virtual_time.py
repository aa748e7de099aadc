"""The production broker on virtual time: half a minute of lock passes in milliseconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.configs.broker import load
from sharegroup.broker.server import Broker
from sharegroup.client.connection import Connection
from sharegroup.model.errors import KafkaError
from sharegroup.sim import MemoryDisk, SimulatedLoop, SimulationStalled, simulated_environment
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GROUP = "workers"
TIMEOUT_MS = 120_000
OPTIONS = ["group.share.min.record.lock.duration.ms=1000"]


class Member:
    """A share group member that speaks the wire protocol by hand, one connection."""

    def __init__(self, connection: Connection, member_id: str) -> None:
        self.connection = connection
        self.member_id = member_id
        self.epoch = 0

    @classmethod
    async def join(cls, port: int, member_id: str) -> Member:
        connection = await Connection.open(
            "127.0.0.1", port, client_id=member_id, timeout_ms=TIMEOUT_MS
        )
        member = cls(connection, member_id)
        joined = await member.send(
            apis.SHARE_GROUP_HEARTBEAT,
            ShareGroupHeartbeatRequest(GROUP, member_id, 0, None, ["jobs"]),
        )
        assert joined.assignment.topic_partitions, "the first heartbeat carries the assignment"
        return member

    async def send(self, api: apis.Api, request: Any) -> Any:
        response = await self.connection.send(api, request, timeout_ms=TIMEOUT_MS)
        assert response.error_code == 0, response
        return response

    async def fetch(self, topic_id: UUID, wait_ms: int = 0) -> list[tuple[int, int, int]]:
        """Acquired (first, last, delivery count) ranges of partition 0."""
        topics = [FetchTopic(topic_id, [FetchPartition(0)])] if self.epoch == 0 else []
        request = ShareFetchRequest(
            GROUP, self.member_id, self.epoch, wait_ms, 1, 1 << 20, 100, 100, topics=topics
        )
        self.epoch += 1
        response = await self.send(apis.SHARE_FETCH, request)
        return [
            (r.first_offset, r.last_offset, r.delivery_count)
            for topic in response.responses
            for part in topic.partitions
            for r in part.acquired_records
        ]

    async def acknowledge(self, topic_id: UUID, first: int, last: int, kind: int) -> int:
        """The partition's error code."""
        batch = AcknowledgementBatch(first, last, [kind])
        topic = AcknowledgeTopic(topic_id, [AcknowledgePartition(0, [batch])])
        request = ShareAcknowledgeRequest(GROUP, self.member_id, self.epoch, topics=[topic])
        self.epoch += 1
        response = await self.send(apis.SHARE_ACKNOWLEDGE, request)
        code: int = response.responses[0].partitions[0].error_code
        return code


async def start(disk: MemoryDisk, *options: str) -> tuple[Broker, int]:
    broker = await Broker.open(load("", [*OPTIONS, *options]), simulated_environment(disk), "data")
    _, port = await broker.listen("127.0.0.1", 0)
    return broker, port


async def topic_with_records(broker: Broker, port: int, count: int) -> UUID:
    connection = await Connection.open("127.0.0.1", port, client_id="p", timeout_ms=TIMEOUT_MS)
    topic = CreatableTopic("jobs", 1, -1)
    await connection.send(apis.CREATE_TOPICS, CreateTopicsRequest([topic]), timeout_ms=TIMEOUT_MS)
    broker.configs.set_group(GROUP, {"share.auto.offset.reset": "earliest"}, validate_only=False)
    found = broker.topics.find("jobs")
    assert found is not None
    batch = encode_batch([(b"k", b"v")] * count, timestamp_ms=0)
    data = TopicProduceData("jobs", found.topic_id, [PartitionProduceData(0, batch)])
    produced = await connection.send(
        apis.PRODUCE, ProduceRequest(None, -1, 1000, [data]), timeout_ms=TIMEOUT_MS
    )
    assert produced.responses[0].partition_responses[0].error_code == 0
    return found.topic_id


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

    real_before_s = time.perf_counter()
    virtual_s = simulate(scenario)
    assert virtual_s > 30
    assert time.perf_counter() - real_before_s < virtual_s / 3


def test_what_was_accepted_never_comes_back_after_power_is_lost() -> None:
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
        for led in again.share_partitions.all():
            led.core.check_invariants()
        await again.close()
        await broker.close()

    simulate(scenario)


def test_a_member_that_falls_silent_leaves_and_its_group_stays() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        await Member.join(port, "first")
        assert len(broker.groups.groups.describe(GROUP).members) == 1
        await asyncio.sleep(46)
        assert broker.groups.groups.describe(GROUP).members == ()
        await broker.close()

    simulate(scenario)


def test_a_wait_that_nothing_can_end_is_said_and_does_not_hang() -> None:
    async def scenario(_: MemoryDisk) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationStalled):
        simulate(scenario)


def test_nobody_listens() -> None:
    async def scenario(_: MemoryDisk) -> None:
        with pytest.raises(KafkaError, match="nobody listens"):
            await Connection.open("127.0.0.1", 9, client_id="c", timeout_ms=1000)

    simulate(scenario)
