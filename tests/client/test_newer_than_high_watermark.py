"""A fetch may have records that are newer than the high watermark in it: Apache Kafka looks at the
high watermark first, and reads then (class Partition, fetchRecords)."""

from __future__ import annotations

import asyncio
from uuid import UUID

from sharegroup import Consumer
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.apis import FETCH, METADATA
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

OFFSET = 7
BATCH = encode_batch([(None, b"new")], timestamp_ms=0, base_offset=OFFSET)


def test_such_records_come_with_the_next_fetch() -> None:
    asked: list[int] = []

    async def metadata(request: Message, version: int) -> Message:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        topic = MetadataResponseTopic(name="t", topic_id=UUID(int=5), partitions=[partition])
        broker = MetadataResponseBroker(1, "127.0.0.1", server.port)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic])

    async def fetch(request: Message, version: int) -> Message:
        asked.append(OFFSET)
        newest = OFFSET if len(asked) == 1 else OFFSET + 1
        part = PartitionData(high_watermark=newest, records=BATCH)
        return FetchResponse(
            responses=[FetchableTopicResponse(topic="t", partitions=[part])],
        )

    async def scenario() -> None:
        async with server:
            server.handle(METADATA, metadata, (1, 12))
            server.handle(FETCH, fetch, (4, 12))
            async with Consumer(bootstrap_servers=server.address) as consumer:
                consumer.assign([TopicPartition("t", 0)])
                consumer.seek("t", 0, OFFSET)
                while not (records := await consumer.poll()):
                    pass
                assert [(one.offset, one.value) for one in records] == [(OFFSET, b"new")]
        assert len(asked) > 1

    server = ScriptedServer()
    asyncio.run(scenario())
