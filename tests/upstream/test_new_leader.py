"""A broker of the cluster that was just elected leader does not know yet of all that the one before
has told: where it has nothing to send, nothing may be there, or much."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import OffsetNotAvailable
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.partition_log import ClusterLog
from sharegroup.wire.apis import FETCH, LIST_OFFSETS, METADATA
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sharegroup.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer

TOPIC_ID = UUID(int=5)
EARLIEST = -2
END = 3
BATCH = encode_batch([(None, b"1"), (None, b"2")], timestamp_ms=0, base_offset=1)


class Leader:
    """A broker that says how far it knows the partition.

    Attributes:
        known: the end, as it knows it.
        records: what it sends.
    """

    def __init__(self, server: ScriptedServer) -> None:
        self.known = END
        self.records = b""
        self._server = server
        server.handle(METADATA, self._metadata, (1, 12))
        server.handle(LIST_OFFSETS, self._offsets, (1, 7))
        server.handle(FETCH, self._fetch, (4, 12))

    async def _metadata(self, request: Message, version: int) -> Message:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        topic = MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])
        broker = MetadataResponseBroker(1, "127.0.0.1", self._server.port)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic])

    async def _offsets(self, request: Message, version: int) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        at = request.topics[0].partitions[0].timestamp
        offset = 0 if at == EARLIEST else self.known
        part = ListOffsetsPartitionResponse(partition_index=0, timestamp=-1, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [part])])

    async def _fetch(self, request: Message, version: int) -> Message:
        part = PartitionData(
            high_watermark=self.known,
            last_stable_offset=self.known,
            log_start_offset=0,
            aborted_transactions=[AbortedTransaction(7, 1)] if self.records else [],
            records=self.records,
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


def test_what_a_new_leader_does_not_know_is_no_gap() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                assert (await log.offsets()).high_watermark == END

                leader.known = 1
                with pytest.raises(OffsetNotAvailable):
                    await log.read(1, 1 << 20, end_offset=END)
                with pytest.raises(OffsetNotAvailable):
                    await log.aborted_transactions(1, END)

                leader.known = END
                assert (await log.read(1, 1 << 20, end_offset=END)).data == b"", "a gap"
                assert await log.aborted_transactions(1, END) == []

                leader.records = BATCH
                assert (await log.read(1, 1 << 20, end_offset=END)).data == BATCH
                [aborted] = await log.aborted_transactions(1, END)
                assert (aborted.producer_id, aborted.first_offset) == (7, 1)

    asyncio.run(asyncio.wait_for(scenario(), 60))
