"""A broker of the cluster, scripted, whose partitions are followed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import (
    FencedLeaderEpoch,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import ReadableLog
from sharegroup.upstream.following import Following
from sharegroup.upstream.partition_log import ClusterLog
from sharegroup.upstream.raw_log import ANY_EPOCH
from sharegroup.wire.apis import FETCH, LIST_OFFSETS, METADATA
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
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
MAGIC_AT = 16
Scenario = Callable[["Broker", list[ClusterLog]], Awaitable[None]]


@dataclass
class Partition:
    """Batches of one record each."""

    batches: list[bytes] = field(default_factory=list)

    lag: int = 0
    """So many of them are not known to be replicated."""

    @property
    def end(self) -> int:
        return len(self.batches)

    @property
    def replicated(self) -> int:
        return self.end - self.lag


class Broker:
    """A broker of the cluster that leads the partitions of a topic, and remembers no sessions.

    Attributes:
        epoch: its own, as a leader, which it also tells.
        refusals: partition → the error code that a request for its records gets.
        starts: partition → where its records begin, if not at 0.
        named: the partitions that the last request for records has named.
    """

    def __init__(self, server: ScriptedServer, partitions: int) -> None:
        self.partitions = [Partition() for _ in range(partitions)]
        self.epoch = 2
        self.refusals: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.named: list[int] = []
        self._server = server
        self._news = asyncio.Event()
        server.handle(METADATA, self._metadata, (1, 12))
        server.handle(LIST_OFFSETS, self._offsets, (1, 7))
        server.handle(FETCH, self._fetch, (4, 12))

    def append(self, partition: int, *, magic: int = 2) -> None:
        one = self.partitions[partition]
        batch = bytearray(encode_batch([(None, b"v")], timestamp_ms=0, base_offset=one.end))
        batch[MAGIC_AT] = magic
        one.batches.append(bytes(batch))
        self._news.set()

    @property
    def address(self) -> str:
        return self._server.address

    def cut(self, partition: int, end: int) -> None:
        """A leader is elected that lacks what is behind."""
        del self.partitions[partition].batches[end:]
        self._news.set()

    def _wrong_epoch(self, asked: int) -> int:
        if asked in (ANY_EPOCH, self.epoch):
            return 0
        return (FencedLeaderEpoch if asked < self.epoch else UnknownLeaderEpoch).code

    async def _metadata(self, request: Message, version: int) -> Message:
        partitions = [
            MetadataResponsePartition(
                partition_index=number,
                leader_id=1,
                leader_epoch=self.epoch,
                replica_nodes=[1],
                isr_nodes=[1],
            )
            for number in range(len(self.partitions))
        ]
        topic = MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)
        broker = MetadataResponseBroker(1, "127.0.0.1", self._server.port)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic])

    async def _offsets(self, request: Message, version: int) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        [asked] = request.topics[0].partitions
        end = self.partitions[asked.partition_index].replicated
        part = ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=self._wrong_epoch(asked.current_leader_epoch),
            offset=0 if asked.timestamp == EARLIEST else end,
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [part])])

    async def _fetch(self, request: Message, version: int) -> Message:
        """Answers at once if there is a record or an error, else when there may be."""
        assert isinstance(request, FetchRequest)
        asked = [one for topic in request.topics for one in topic.partitions]
        self.named = [one.partition for one in asked]
        found = [*map(self._read, asked)]
        if not any(one.records or one.error_code for one in found):
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    await self._news.wait()
            found = [*map(self._read, asked)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=found)])

    def _read(self, asked: FetchPartition) -> PartitionData:
        one = self.partitions[asked.partition]
        data = PartitionData(partition_index=asked.partition, high_watermark=one.replicated)
        data.last_stable_offset = one.replicated
        data.log_start_offset = self.starts.get(asked.partition, 0)
        data.error_code = self.refusals.get(
            asked.partition, self._wrong_epoch(asked.current_leader_epoch)
        )
        if data.error_code:
            return data
        if asked.fetch_offset > one.end:
            data.error_code, data.high_watermark = OffsetOutOfRange.code, -1
        else:
            found = one.batches[asked.fetch_offset : one.replicated]
            data.records = b"".join(found if asked.partition_max_bytes > 1 else found[:1])
        return data


class Moves:
    """Waits until logs know more."""

    def __init__(self, logs: list[ClusterLog]) -> None:
        self._moved = asyncio.Event()
        for log in logs:
            log.on_advance = self._on_advance

    def _on_advance(self, _: ReadableLog) -> None:
        self._moved.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._moved.clear()
            await self._moved.wait()


def plays(scenario: Scenario, partitions: int) -> None:
    """With so many empty partitions, all of them followed."""

    async def play() -> None:
        async with ScriptedServer() as server:
            broker = Broker(server, partitions)
            async with Cluster(server.address) as cluster:
                follows = Following(cluster)
                follows.start()
                try:
                    await scenario(broker, await _followed(cluster, follows, partitions))
                finally:
                    await follows.close()

    asyncio.run(asyncio.wait_for(play(), 60))


async def _followed(cluster: Cluster, follows: Following, partitions: int) -> list[ClusterLog]:
    logs = []
    for number in range(partitions):
        log = ClusterLog(cluster, TopicPartition("t", number), TOPIC_ID, follows.follow)
        await log.offsets()
        await log.read(0, 1)
        logs.append(log)
    return logs
