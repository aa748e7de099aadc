"""A broker in this process, and what a share session on it needs: a topic, records, a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from tests.servers.share_session import ACCEPT as ACCEPT
from tests.servers.share_session import REJECT as REJECT
from tests.servers.share_session import RELEASE as RELEASE
from tests.servers.share_session import RENEW as RENEW
from tests.servers.share_session import TIMEOUT_MS as TIMEOUT_MS
from tests.servers.share_session import Range as Range
from tests.servers.share_session import Session as Session
from tests.servers.share_session import ack_codes as ack_codes
from tests.servers.share_session import acquired as acquired
from tests.servers.share_session import codes as codes
from tests.servers.share_session import endpoints as endpoints
from tests.servers.share_session import parts as parts

TOPIC = "jobs"
GROUP = "workers"


async def connect(port: int) -> Connection:
    return await Connection.open("127.0.0.1", port, client_id="by-hand", timeout_ms=TIMEOUT_MS)


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
