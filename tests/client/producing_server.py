"""A server with one topic, whose answers to Produce a test decides."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from sharegroup.wire.apis import INIT_PRODUCER_ID, METADATA, PRODUCE
from sharegroup.wire.messages.init_producer_id import InitProducerIdResponse
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

TOPIC = "jobs"
UNKNOWN_TOPIC = 3


class ProducingServer(ScriptedServer):
    """Produce is answered while ``may_answer`` is set, and sets ``asked``. ``errors`` are the codes
    of the next answers; after them there is none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.errors: list[int] = []
        self.produced = 0
        self.producer_ids = 0
        self.handle(METADATA, self._topics, (1, 12))
        self.handle(INIT_PRODUCER_ID, self._producer_id, (0, 5))
        self.handle(PRODUCE, self._produce, (3, 11))

    async def __aexit__(self, *error: Any) -> None:
        self.may_answer.set()
        await super().__aexit__(*error)

    async def _topics(self, request: Message, version: int) -> Message:
        assert isinstance(request, MetadataRequest)
        partition = MetadataResponsePartition(partition_index=0, leader_id=1)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(1, "127.0.0.1", self.port)],
            cluster_id="c",
            controller_id=1,
            topics=[
                MetadataResponseTopic(name=one.name, topic_id=UUID(int=1), partitions=[partition])
                if one.name == TOPIC
                else MetadataResponseTopic(UNKNOWN_TOPIC, one.name)
                for one in request.topics or ()
            ],
        )

    async def _producer_id(self, request: Message, version: int) -> Message:
        self.producer_ids += 1
        return InitProducerIdResponse(producer_id=self.producer_ids)

    async def _produce(self, request: Message, version: int) -> Message:
        assert isinstance(request, ProduceRequest)
        self.asked.set()
        await self.may_answer.wait()
        self.produced += 1
        error = self.errors.pop(0) if self.errors else 0
        return ProduceResponse(
            [
                TopicProduceResponse(
                    topic.name,
                    partition_responses=[
                        PartitionProduceResponse(one.index, error, self.produced)
                        for one in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )
