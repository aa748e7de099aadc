"""What a broker writes into a topic of the cluster that every broker reads."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import KafkaStorageError, MessageTooLarge
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream import node_requests
from sharegroup.upstream.node_requests import ASKS, NodeRequests
from sharegroup.upstream.shared_log import SharedLog
from sharegroup.upstream.state_log import BATCH_BYTES_MAX, Record
from sharegroup.wire.apis import FETCH, LIST_OFFSETS, METADATA, PRODUCE
from sharegroup.wire.batch import encode_batch, parse_headers
from sharegroup.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sharegroup.wire.messages.metadata import (
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

WHERE = TopicPartition("t", 0)
NODE = 1
SECONDS = 60


class Leader:
    """It has one partition. `writes`: how many records each Produce had."""

    def __init__(self, server: ScriptedServer) -> None:
        self.writes: list[int] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.asked_to_write = asyncio.Event()
        self._data = b""
        self._end = 0
        self._news = asyncio.Event()
        self._server = server
        server.handle(METADATA, self._metadata, (1, 12))
        server.handle(LIST_OFFSETS, self._offsets, (1, 7))
        server.handle(FETCH, self._fetch, (4, 12))
        server.handle(PRODUCE, self._produce, (3, 9))

    def append(self, batch: bytes) -> int:
        """Returns the offset of the first record."""
        first, [header] = self._end, parse_headers(batch)
        self._data += first.to_bytes(8, "big") + batch[8:]
        self._end += header.last_offset_delta + 1
        self._news.set()
        return first

    async def _metadata(self, request: Message, version: int) -> Message:
        partition = MetadataResponsePartition(partition_index=0, leader_id=NODE)
        topic = MetadataResponseTopic(name="t", topic_id=UUID(int=5), partitions=[partition])
        broker = MetadataResponseBroker(NODE, "127.0.0.1", self._server.port)
        return MetadataResponse(brokers=[broker], controller_id=NODE, topics=[topic])

    async def _offsets(self, request: Message, version: int) -> Message:
        part = ListOffsetsPartitionResponse(partition_index=0, offset=self._end)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [part])])

    async def _produce(self, request: Message, version: int) -> Message:
        assert isinstance(request, ProduceRequest)
        self.asked_to_write.set()
        await self.may_write.wait()
        batch = bytes(request.topic_data[0].partition_data[0].records or b"")
        [header] = parse_headers(batch)
        self.writes.append(header.last_offset_delta + 1)
        part = PartitionProduceResponse(index=0)
        if len(batch) > BATCH_BYTES_MAX:
            part.error_code = MessageTooLarge.code
        else:
            part.base_offset = self.append(batch)
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[part])]
        )

    async def _fetch(self, request: Message, version: int) -> Message:
        assert isinstance(request, FetchRequest)
        wanted = request.topics[0].partitions[0].fetch_offset
        while wanted >= self._end:
            self._news.clear()
            await self._news.wait()
        part = PartitionData(high_watermark=self._end, records=self._data)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


def test_what_is_submitted_while_a_write_is_under_way_is_written_together() -> None:
    """Or who asks about a thousand groups at once would wait for a thousand writes."""
    taken: list[tuple[bytes, bool]] = []

    def take(record: Record, own: bool) -> None:
        taken.append((record[1], own))

    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            leader.append(encode_batch([(b"another's", b"")], timestamp_ms=0))
            async with Cluster(server.address) as cluster:
                log = SharedLog(cluster, WHERE, "shared", lambda: 0, take)
                log.follow()
                leader.may_write.clear()
                first = log.submit([(b"0", b"")])
                await leader.asked_to_write.wait()
                others = [log.submit([(b"%d" % n, b"")] * (n % 3)) for n in range(1, 100)]
                leader.may_write.set()
                offsets = [await one.durable() for one in (first, *others)]
                assert leader.writes == [1, sum(n % 3 for n in range(1, 100))]
                assert offsets == [
                    1 + sum(n % 3 for n in range(1, at)) + (at > 0) for at in range(100)
                ]
                await log.read_to_end()
                own = [b"0"] + [b"%d" % n for n in range(1, 100) for _ in range(n % 3)]
                assert taken == [(b"another's", False), *((key, True) for key in own)]
                await log.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def test_what_is_too_large_fails_alone() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                log = SharedLog(cluster, WHERE, "shared", lambda: 0, lambda _record, _own: None)
                log.follow()
                leader.may_write.clear()
                before = log.submit([(b"0", b"")])
                await leader.asked_to_write.wait()
                small, large, last = [
                    log.submit([(b"1", value)]) for value in (b"", bytes(BATCH_BYTES_MAX), b"")
                ]
                leader.may_write.set()
                assert [await one.durable() for one in (before, small, last)] == [0, 1, 2]
                with pytest.raises(KafkaStorageError):
                    await large.durable()
                await log.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def test_a_broker_that_stops_does_not_wait_for_an_answer_that_cannot_be_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As while the cluster stands still."""
    monkeypatch.setattr(node_requests, "CLOSE_S", 0.0)

    async def scenario() -> None:
        asked = asyncio.Event()

        async def answer(_key: int, _version: int, _body: bytes) -> bytes:
            asked.set()
            await asyncio.get_running_loop().create_future()
            return b""

        async with ScriptedServer() as server:
            leader = Leader(server)
            async with Cluster(server.address) as cluster:
                requests = NodeRequests(cluster, WHERE, (NODE, "me"), lambda: 0, answer)
                await requests.start()
                key = json.dumps([ASKS, NODE, "another", 0, METADATA.key, 1]).encode()
                leader.append(encode_batch([(key, b"")], timestamp_ms=0))
                await asked.wait()
                await requests.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))
