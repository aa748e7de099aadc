"""The leaders of a cluster's partitions move while a Produce is passed on to them."""

from __future__ import annotations

import asyncio

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.passing.passing import Passing
from sharegroup.broker.passing.ways import WAYS
from sharegroup.broker.request_context import RequestContext
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import NotLeaderOrFollower
from sharegroup.wire.apis import METADATA, PRODUCE
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

VERSION = 9


class Moved:
    """A broker that leads the first of two partitions, and falls silent after its answer."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._answered = False
        server.handle(METADATA, self._metadata, (1, 12))
        server.handle(PRODUCE, self._produce, (3, VERSION))

    async def _metadata(self, _request: Message, _version: int) -> Message:
        if self._answered:
            raise ConnectionError
        partitions = [
            MetadataResponsePartition(partition_index=one, leader_id=1) for one in range(2)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(1, "127.0.0.1", self._server.port)],
            cluster_id="c",
            controller_id=1,
            topics=[MetadataResponseTopic(name="t", partitions=partitions)],
        )

    async def _produce(self, _request: Message, _version: int) -> Message:
        self._answered = True
        appended = PartitionProduceResponse(index=0, base_offset=7)
        refused = PartitionProduceResponse(
            index=1, error_code=NotLeaderOrFollower.code, base_offset=-1
        )
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[appended, refused])]
        )


async def seen(_created: object) -> None: ...


async def here(_request: object) -> None: ...


def test_what_one_leader_has_appended_is_told_though_nobody_knows_another_leader() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            Moved(server)
            async with Cluster(server.address, request_timeout_ms=500) as cluster:
                batch = encode_batch([(None, b"v")], timestamp_ms=0)
                parts = [PartitionProduceData(one, batch) for one in range(2)]
                request = ProduceRequest(
                    None, -1, 1_000, [TopicProduceData(name="t", partition_data=parts)]
                )
                context = RequestContext(VERSION, "", "", object(), Access(), ("", 0))
                answer = await Passing(cluster, WAYS, seen).answer(PRODUCE, request, context, here)
        [topic] = answer.responses
        told = [(one.error_code, one.base_offset) for one in topic.partition_responses]
        assert told == [(0, 7), (NotLeaderOrFollower.code, -1)]

    asyncio.run(asyncio.wait_for(scenario(), 60))
