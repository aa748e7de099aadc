"""What the log of a cluster's partition makes of answers: of a leader that was just elected, and of
two at a time."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import CorruptMessage, OffsetNotAvailable
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.partition_log import ClusterLog
from sharegroup.wire.apis import FETCH, LIST_OFFSETS, METADATA
from sharegroup.wire.batch import TRANSACTIONAL, encode_batch
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
IN_TRANSACTION = encode_batch(
    [(None, b"1")],
    timestamp_ms=0,
    base_offset=1,
    producer_id=7,
    producer_epoch=0,
    attributes=TRANSACTIONAL,
)
LATER = encode_batch([(None, b"9")], timestamp_ms=0, base_offset=END)
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
        self.asked = asyncio.Event()
        self.may_tell = asyncio.Event()
        self.may_tell.set()
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
        self.asked.set()
        await self.may_tell.wait()
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


def test_who_reads_gets_what_he_has_read_and_not_what_another_one_has() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                await log.offsets()
                leader.asked.clear()
                leader.may_tell.clear()
                leader.records = IN_TRANSACTION
                reading = asyncio.create_task(log.read(1, 1 << 20, end_offset=END))
                await leader.asked.wait()  # where the first open transaction begins
                newer = PartitionData(high_watermark=END + 1, log_start_offset=0, records=LATER)
                following = asyncio.create_task(log.came(END, newer))
                await asyncio.sleep(0)
                leader.may_tell.set()
                assert (await reading).data == IN_TRANSACTION
                await following

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_an_answer_ends_wherever_it_is_full() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address, request_timeout_ms=500) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                await log.offsets()
                for cut in (1, 20, len(LATER) - 1):
                    leader.records = BATCH + LATER[:cut]
                    assert (await log.read(1, 1 << 20, end_offset=END)).data == BATCH
                    assert await log.aborted_transactions(1, END) == [(7, 1)]
                fresh = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                leader.records = BATCH[:-1]
                with pytest.raises(CorruptMessage):  # a gap would be passed over
                    await fresh.read(1, 1 << 20, end_offset=END)

    asyncio.run(asyncio.wait_for(scenario(), 60))
