"""A share group member and a producer that speak the wire protocol by hand."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker import share_wire

GROUP = "workers"
TIMEOUT_MS = 120_000


async def connect(port: int) -> Connection:
    return await Connection.open("127.0.0.1", port, client_id="by-hand", timeout_ms=TIMEOUT_MS)


class Member:
    """A share group member that speaks the wire protocol by hand, one connection."""

    def __init__(self, connection: Connection, member_id: str) -> None:
        self.connection = connection
        self.member_id = member_id
        self._session: share_wire.Session | None = None

    @classmethod
    async def join(cls, port: int, member_id: str) -> Member:
        connection = await Connection.open(
            "127.0.0.1", port, client_id=member_id, timeout_ms=TIMEOUT_MS
        )
        member = cls(connection, member_id)
        joined = await member.heartbeat(0, ["jobs"])
        while not joined.assignment or not joined.assignment.topic_partitions:
            # Not the group's first member: it is told when to come for its share.
            assert 0 < joined.heartbeat_interval_ms <= 1_000
            await asyncio.sleep(joined.heartbeat_interval_ms / 1000)
            joined = await member.heartbeat(joined.member_epoch)
        return member

    async def heartbeat(self, epoch: int, topics: list[str] | None = None) -> Any:
        return await self.send(
            apis.SHARE_GROUP_HEARTBEAT,
            ShareGroupHeartbeatRequest(GROUP, self.member_id, epoch, None, topics),
        )

    async def send(self, api: apis.Api, request: Any) -> Any:
        response = await self.connection.send(api, request, timeout_ms=TIMEOUT_MS)
        assert response.error_code == 0, response
        return response

    async def fetch(self, topic_id: UUID, wait_ms: int = 0) -> list[share_wire.Range]:
        """Acquired (first, last, delivery count) ranges of partition 0."""
        new = self._session is None
        if self._session is None:
            self._session = share_wire.Session(self.connection, topic_id, self.member_id, GROUP)
        response = await self._session.fetch(
            *([0] if new else []), max_wait_ms=wait_ms, max_records=100, batch_size=100
        )
        return share_wire.acquired(response).get(0, [])

    async def acknowledge(self, topic_id: UUID, first: int, last: int, kind: int) -> int:
        """The partition's error code."""
        assert self._session is not None
        self._session.topic_id = topic_id
        response = await self._session.acknowledge({0: [(first, last, [kind])]})
        return share_wire.codes(response)[0]


async def topic_with_records(broker: Broker, port: int, count: int) -> UUID:
    connection = await connect(port)
    topic = CreatableTopic("jobs", 1, -1)
    await connection.send(apis.CREATE_TOPICS, CreateTopicsRequest([topic]), timeout_ms=TIMEOUT_MS)
    broker.parts.configs.set_group(
        GROUP, {"share.auto.offset.reset": "earliest"}, validate_only=False
    )
    found = broker.parts.topics.find("jobs")
    assert found is not None
    batch = encode_batch([(b"k", b"v")] * count, timestamp_ms=0)
    assert await produce(connection, found.topic_id, batch) == 0
    return found.topic_id


async def produce(
    connection: Connection, topic_id: UUID, batches: bytes, partition: int = 0
) -> int:
    """The partition's error code."""
    data = TopicProduceData("jobs", topic_id, [PartitionProduceData(partition, batches)])
    request = ProduceRequest(None, -1, 1000, [data])
    response = await connection.send(apis.PRODUCE, request, timeout_ms=TIMEOUT_MS)
    code: int = response.responses[0].partition_responses[0].error_code
    return code
