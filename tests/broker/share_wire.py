"""One share session by hand: requests exactly as a test writes them, responses as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages import share_acknowledge as ack_messages
from sharegroup.wire.messages import share_fetch as fetch_messages
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

TIMEOUT_MS = 120_000
TOPIC = "jobs"
GROUP = "workers"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Acks = Mapping[int, Sequence[tuple[int, int, Sequence[int]]]]
"""Partition → (first offset, last offset, types)."""

Range = tuple[int, int, int]
"""First and last offset, delivery count."""


async def connect(port: int) -> Connection:
    return await Connection.open("127.0.0.1", port, client_id="by-hand", timeout_ms=TIMEOUT_MS)


class Session:
    """A member's share session on a connection; ``epoch`` is that of its next request."""

    def __init__(
        self, connection: Connection, topic_id: UUID, member: str = "m-1", group: str = GROUP
    ) -> None:
        self.connection = connection
        self.topic_id = topic_id
        self.member = member
        self.group = group
        self.epoch = 0

    async def fetch(
        self,
        *partitions: int,
        acks: Acks | None = None,
        forget: Iterable[int] = (),
        epoch: int | None = None,
        **limits: Any,
    ) -> Any:
        """Add ``partitions`` to the session and fetch; without an ``epoch`` the next one."""
        wanted = acks or {}
        request = fetch_messages.ShareFetchRequest(
            self.group,
            self.member,
            self._next() if epoch is None else epoch,
            **{
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                **limits,
            },
        )
        named = [
            fetch_messages.FetchPartition(
                number,
                [fetch_messages.AcknowledgementBatch(*batch) for batch in wanted.get(number, ())],
            )
            for number in (*partitions, *(number for number in wanted if number not in partitions))
        ]
        if named:
            request.topics = [fetch_messages.FetchTopic(self.topic_id, named)]
        if forget:
            gone = fetch_messages.ForgottenTopic(self.topic_id, list(forget))
            request.forgotten_topics_data = [gone]
        return await self.connection.send(apis.SHARE_FETCH, request, timeout_ms=TIMEOUT_MS)

    async def acknowledge(
        self, acks: Acks, *, epoch: int | None = None, is_renew_ack: bool = False
    ) -> Any:
        parts = [
            ack_messages.AcknowledgePartition(
                number, [ack_messages.AcknowledgementBatch(*batch) for batch in batches]
            )
            for number, batches in acks.items()
        ]
        request = ack_messages.ShareAcknowledgeRequest(
            self.group,
            self.member,
            self._next() if epoch is None else epoch,
            is_renew_ack=is_renew_ack,
            topics=[ack_messages.AcknowledgeTopic(self.topic_id, parts)],
        )
        return await self.connection.send(apis.SHARE_ACKNOWLEDGE, request, timeout_ms=TIMEOUT_MS)

    def _next(self) -> int:
        self.epoch += 1
        return self.epoch - 1


def parts(response: Any) -> dict[int, Any]:
    """Partition → its data, in a response that says nothing of the request as a whole."""
    assert response.error_code == 0, response
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def acquired(response: Any) -> dict[int, list[Range]]:
    """Partition → what was acquired of it; only those with records."""
    return {
        number: [(r.first_offset, r.last_offset, r.delivery_count) for r in part.acquired_records]
        for number, part in parts(response).items()
        if part.acquired_records
    }


def ack_codes(response: Any) -> dict[int, int]:
    """Partition → the outcome of its acknowledgements in a ShareFetch response."""
    return {number: part.acknowledge_error_code for number, part in parts(response).items()}


def codes(response: Any) -> dict[int, int]:
    """Partition → its error code."""
    return {number: part.error_code for number, part in parts(response).items()}


async def until(condition: Callable[[], bool]) -> None:
    """Let the broker in this process work until ``condition`` holds."""
    async with asyncio.timeout(TIMEOUT_MS / 1000):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


async def new_topic(broker: Broker, port: int, partitions: int = 3, name: str = TOPIC) -> UUID:
    connection = await connect(port)
    topic = CreatableTopic(name, partitions, -1)
    await connection.send(apis.CREATE_TOPICS, CreateTopicsRequest([topic]), timeout_ms=TIMEOUT_MS)
    connection.close()
    found = broker.parts.topics.find(name)
    assert found is not None
    return found.topic_id


async def new_group(broker: Broker, port: int, group: str = GROUP, **configs: str) -> None:
    """A group that begins at the first record of the topic, with its delivery state made."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    settings = {"share.auto.offset.reset": "earliest", **settings}
    broker.parts.configs.set_group(group, settings, validate_only=False)
    connection = await connect(port)
    request = ShareGroupHeartbeatRequest(group, "starter", 0, None, [TOPIC])
    answer = await connection.send(apis.SHARE_GROUP_HEARTBEAT, request, timeout_ms=TIMEOUT_MS)
    assert answer.error_code == 0, answer
    connection.close()


async def started(
    broker: Broker, port: int, *, partitions: int = 3, records: int = 0, **configs: str
) -> Session:
    """A topic, ``records`` of it in partition 0, a group, and the session of a member."""
    topic_id = await new_topic(broker, port, partitions)
    if records:
        await produce(port, topic_id, 0, records)
    await new_group(broker, port, **configs)
    return Session(await connect(port), topic_id)


def batch_of(records: int, size: int = 10) -> bytes:
    return encode_batch([(None, b"v" * size)] * records, timestamp_ms=0)


async def produce(port: int, topic_id: UUID, partition: int, *records: int, size: int = 10) -> None:
    """A batch for each of ``records``, which say how many it has."""
    connection = await connect(port)
    for count in records:
        data = [PartitionProduceData(partition, batch_of(count, size))]
        request = ProduceRequest(None, -1, 1000, [TopicProduceData(TOPIC, topic_id, data)])
        answer = await connection.send(apis.PRODUCE, request, timeout_ms=TIMEOUT_MS)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
    connection.close()
