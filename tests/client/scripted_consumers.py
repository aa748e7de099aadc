"""A scripted broker with one topic, which coordinates a consumer group that has committed offset 50
of every partition, under leader epoch 1. It has no records."""

from __future__ import annotations

import asyncio
from uuid import UUID

from sharegroup.wire import apis
from sharegroup.wire.messages.fetch import FetchRequest, FetchResponse
from sharegroup.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

GROUP, TOPIC, TOPIC_ID = "g", "t", UUID(int=7)
NODE, COMMITTED = 1, 50


class ScriptedConsumers(ScriptedServer):
    """See the module.

    Attributes:
        leaders: the leader of each partition; a test may change it.
        leader_epoch: of all partitions.
    """

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.leaders = [NODE] * partitions
        self.leader_epoch = 1
        self.handle(apis.METADATA, self._topic, (1, 12))
        self.handle(apis.FIND_COORDINATOR, self._coordinator, (4, 6))
        self.handle(apis.OFFSET_FETCH, self._committed, (8, 9))
        self.handle(apis.FETCH, self._no_records, (4, 12))

    async def _topic(self, request: Message, version: int) -> Message:
        partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=leader, leader_epoch=self.leader_epoch
            )
            for index, leader in enumerate(self.leaders)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(NODE, "127.0.0.1", self.port)],
            cluster_id="c",
            controller_id=NODE,
            topics=[MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)],
        )

    async def _coordinator(self, request: Message, version: int) -> Message:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(GROUP, NODE, "127.0.0.1", self.port)]
        )

    async def _committed(self, request: Message, version: int) -> Message:
        assert isinstance(request, OffsetFetchRequest)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(index, COMMITTED, 1, "")
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.groups[0].topics or ()
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(GROUP, topics)])

    async def _no_records(self, request: Message, version: int) -> Message:
        assert isinstance(request, FetchRequest)
        await asyncio.sleep(request.max_wait_ms / 1000)
        return FetchResponse()
