"""What follows the partitions of a cluster when one of them is not as the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from sharegroup.broker.delivery.following import follow_all
from sharegroup.broker.waiters import FetchWaiters
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.log import ReadableLog
from sharegroup.upstream import following, partition_log
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
        named: the partitions that the last request for records has named.
    """

    def __init__(self, server: ScriptedServer, partitions: int) -> None:
        self.partitions = [Partition() for _ in range(partitions)]
        self.epoch = 2
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
        data.last_stable_offset, data.log_start_offset = one.replicated, 0
        data.error_code = self._wrong_epoch(asked.current_leader_epoch)
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


@contextmanager
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What was said louder than INFO."""
    with caplog.at_level(logging.WARNING, "sharegroup.broker"):
        yield lambda: [one.getMessage() for one in caplog.records]


def test_a_partition_that_cannot_be_read_holds_up_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "REST_S", 1_000.0)

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        old, good = logs
        moves = Moves(logs)
        with warnings(caplog) as said:
            broker.append(0, magic=1)
            broker.append(1)
            await moves.until(lambda: good.high_watermark == 1)
            broker.append(1)
            await moves.until(lambda: good.high_watermark == 2)
            assert broker.named == [1], "the other one rests"
            assert old.high_watermark == 1, "who waits for its records is told that some came"
            with pytest.raises(CorruptMessage):
                await old.read(0, 1 << 20)
            [line] = said()
        assert "t-0 cannot be followed" in line

    plays(scenario, 2)


def test_what_could_not_be_taken_in_is_asked_for_again_after_a_rest(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "REST_S", 0.0)

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        [log] = logs
        moves = Moves(logs)
        with warnings(caplog) as said:
            broker.append(0, magic=1)
            await moves.until(lambda: log.high_watermark == 1)
            broker.append(0, magic=1)
            await moves.until(lambda: log.high_watermark == 2)
            assert len(said()) == 1
        broker.append(0)
        await moves.until(lambda: log.high_watermark == 3)
        assert (await log.read(2, 1 << 20)).data == broker.partitions[0].batches[2]

    plays(scenario, 1)


async def grown(broker: Broker, log: ClusterLog, moves: Moves, end: int) -> None:
    """The first partition has so many records, and this is known."""
    for _ in range(broker.partitions[0].end, end):
        broker.append(0)
    await moves.until(lambda: log.high_watermark == end)


def test_who_waits_behind_the_end_of_a_log_that_has_gone_back_is_told_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        [log] = logs
        moves = Moves(logs)
        await grown(broker, log, moves, 10)
        assert (await log.read(0, 1 << 20)).data == b"".join(broker.partitions[0].batches)
        with warnings(caplog) as said:
            broker.cut(0, 7)
            broker.epoch = 3
            await moves.until(lambda: log.high_watermark == 7)
            [line] = said()
        assert "t-0 has gone back in the cluster, from offset 10 to 7" in line
        assert (await log.offsets()).end == 7
        broker.append(0)
        await moves.until(lambda: log.high_watermark == 8)
        assert (await log.read(7, 1 << 20)).data == broker.partitions[0].batches[7]

    plays(scenario, 1)


def test_a_partition_that_is_refused_at_its_end_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of an earlier epoch says nothing of how far the log goes."""

    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        stale, good = logs
        moves = Moves(logs)
        await grown(broker, stale, moves, 10)
        monkeypatch.setattr(following, "PAUSE_S", 1_000.0)
        broker.cut(0, 7)
        broker.epoch = 1  # who is asked is behind
        for _ in range(3):
            broker.append(1)
            await moves.until(lambda: good.high_watermark == broker.partitions[1].end)
        assert broker.named == [1]
        assert stale.high_watermark == (await stale.offsets()).end == 10

    plays(scenario, 2)


def test_a_leader_that_does_not_know_yet_what_is_replicated_takes_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        [log] = logs
        await grown(broker, log, Moves(logs), 10)
        broker.epoch = 3
        broker.partitions[0].lag = 3
        with warnings(caplog) as said:
            assert (await log.offsets()).end == 10
            assert said() == []

    plays(scenario, 1)


async def let_all_but_one_leave(
    broker: Broker, logs: list[ClusterLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody wants the first partition any more; the second one somebody waits for."""
    first, second = logs
    moves = Moves([second])
    second.follow(lambda: True)
    monkeypatch.setattr(partition_log, "KEPT_S", -1.0)
    for _ in range(3):  # requests under way, and those that they have begun before
        broker.append(1)
        await moves.until(lambda: second.high_watermark == broker.partitions[1].end)
    assert broker.named == [1]
    assert (first.is_followed, second.is_followed) == (False, True)


def test_what_nobody_reads_or_waits_for_is_followed_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        first, _ = logs
        await grown(broker, first, Moves([first]), 4)
        woken: list[ReadableLog] = []
        first.on_advance = woken.append
        await let_all_but_one_leave(broker, logs, monkeypatch)
        assert woken == [first], "who has begun to wait meanwhile looks again"
        monkeypatch.undo()

        broker.append(0)
        assert first.high_watermark == 4, "as it was known then"
        monkeypatch.setattr(partition_log, "FRESH_S", -1.0)
        told = await first.read(0, 1 << 20)
        assert told.data == b"".join(broker.partitions[0].batches), "what has come meanwhile, too"
        assert first.is_followed
        await grown(broker, first, Moves([first]), 6)

    plays(scenario, 2)


def test_who_waits_again_for_a_log_that_has_gone_back_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(broker: Broker, logs: list[ClusterLog]) -> None:
        first, _ = logs
        await grown(broker, first, Moves([first]), 4)
        await let_all_but_one_leave(broker, logs, monkeypatch)
        broker.cut(0, 2)
        broker.append(0)
        assert (await first.offsets()).end == 3

    plays(scenario, 2)


def test_who_asks_for_offsets_follows_nothing() -> None:
    async def scenario(broker: Broker, _: list[ClusterLog]) -> None:
        followed: list[ClusterLog] = []
        async with Cluster(broker.address) as cluster:
            log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, followed.append)
            for end in range(3):
                assert (await log.offsets()).end == end
                broker.append(0)
            assert (await log.offset_for_timestamp(0)) == (3, -1)
        assert not log.is_followed
        assert followed == []

    plays(scenario, 1)


def test_a_log_is_followed_as_long_as_fetches_watch_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_log, "KEPT_S", -1.0)

    async def scenario(broker: Broker, _: list[ClusterLog]) -> None:
        followed: list[ClusterLog] = []
        waiters = FetchWaiters()
        broker.append(0)
        async with Cluster(broker.address) as cluster:
            log = ClusterLog(cluster, TopicPartition("t", 0), TOPIC_ID, followed.append)
            with waiters.watch([TopicIdPartition(TOPIC_ID, 0)], None, "group"):
                await follow_all(waiters, [log])
                assert (log.is_followed, followed, log.high_watermark) == (True, [log], 1)
                assert log.is_wanted
            assert not log.is_wanted

    plays(scenario, 1)
