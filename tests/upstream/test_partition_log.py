"""What the log of a cluster's partition makes of answers: of a leader that was just elected, and of
two at a time."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import (
    CorruptMessage,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
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
        stable: where the first open transaction begins; None: there is none.
        topic_id: of the topic.
        leads: whether the partition has a leader.
        told: how often it was asked for leaders.
        records: what it sends.
    """

    def __init__(self, server: ScriptedServer) -> None:
        self.known = END
        self.stable: int | None = None
        self.topic_id = TOPIC_ID
        self.leads = True
        self.records = b""
        self.told = 0
        self.looked = asyncio.Event()
        self.asked = asyncio.Event()
        self.may_tell = asyncio.Event()
        self.may_tell.set()
        self._server = server
        server.handle(METADATA, self._metadata, (1, 12))
        server.handle(LIST_OFFSETS, self._offsets, (1, 7))
        server.handle(FETCH, self._fetch, (4, 12))

    async def _metadata(self, request: Message, version: int) -> Message:
        self.told += 1
        self.looked.set()
        partition = MetadataResponsePartition(
            partition_index=0,
            leader_id=1 if self.leads else -1,
            replica_nodes=[1],
            isr_nodes=[1],
        )
        topic = MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=[partition])
        broker = MetadataResponseBroker(1, "127.0.0.1", self._server.port)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic])

    async def _offsets(self, request: Message, version: int) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        self.asked.set()
        await self.may_tell.wait()
        at = request.topics[0].partitions[0].timestamp
        stable = self.known if self.stable is None else self.stable
        end = stable if request.isolation_level else self.known
        offset = 0 if at == EARLIEST else end
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
                leader.records, leader.known = IN_TRANSACTION, END + 1
                reading = asyncio.create_task(log.read(1, 1 << 20, end_offset=END))
                await leader.asked.wait()  # where the first open transaction begins
                newer = PartitionData(high_watermark=END + 1, log_start_offset=0, records=LATER)
                following = asyncio.create_task(log.came(END, newer))
                await asyncio.sleep(0)
                leader.may_tell.set()
                assert (await reading).data == IN_TRANSACTION
                await following

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_lies_behind_a_backlog_may_be_of_an_open_transaction() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                await log.offsets()
                leader.known, leader.stable, leader.records = 10, END, BATCH
                await log.read(1, 1 << 20, end_offset=END)
                assert (log.high_watermark, log.last_stable_offset) == (10, END)
                nothing = PartitionData(high_watermark=20, log_start_offset=0, records=b"")
                await log.came(10, nothing)
                assert (log.high_watermark, log.last_stable_offset) == (20, END)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_nobody_is_asked_where_all_that_is_new_has_come() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                await log.offsets()
                leader.asked.clear()
                newer = PartitionData(high_watermark=END + 1, log_start_offset=0, records=LATER)
                await log.came(END, newer)
                leader.known, leader.records = END + 1, IN_TRANSACTION
                assert (await log.read(1, 1 << 20, end_offset=END)).data == IN_TRANSACTION
                assert log.last_stable_offset == END + 1
                assert not leader.asked.is_set()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_cluster_that_gives_its_topics_no_ids_has_leaders() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                for there, found in ((TOPIC_ID, 1), (NULL_TOPIC_ID, 1), (UUID(int=6), -1)):
                    leader.topic_id = there
                    await cluster.refresh()
                    assert log.leader == found

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_nobody_waits_twice_for_a_leader_that_does_not_come() -> None:
    """Other partitions of a request would wait for this one again and again."""

    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                await log.offsets()
                leader.leads, leader.records = False, BATCH
                await cluster.refresh()
                with pytest.raises(LeaderNotAvailable):
                    await log.read(1, 1 << 20, end_offset=END)
                told = leader.told
                assert told > 1, "it has looked for a leader"
                for _ in range(5):
                    with pytest.raises(LeaderNotAvailable):
                        await log.read(1, 1 << 20, end_offset=END)
                assert leader.told == told
                leader.leads = True
                await cluster.refresh()  # as who follows the partition does
                assert (await log.read(1, 1 << 20, end_offset=END)).data == BATCH

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_who_waits_for_the_leader_of_a_deleted_topic_waits_no_more() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                await log.offsets()
                leader.leads = False
                await cluster.refresh()
                leader.looked.clear()
                reading = asyncio.create_task(log.read(1, 1 << 20, end_offset=END))
                await leader.looked.wait()
                log.gone()
                with pytest.raises(UnknownTopicOrPartition):
                    await reading

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


def test_a_leader_that_does_not_know_of_the_largest_timestamp_is_not_asked_for_it() -> None:
    """It would look for the first record of that time, which is the first of all."""

    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            server.handle(LIST_OFFSETS, leader._offsets, (1, 6))
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, lambda _: None)
                await log.offsets()
                with pytest.raises(UnsupportedVersion, match="version 6 of ListOffsets"):
                    await log.offset_of_max_timestamp()

    asyncio.run(asyncio.wait_for(scenario(), 60))
