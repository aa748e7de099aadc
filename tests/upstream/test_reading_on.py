"""Several read one partition of a cluster at once, some at its end and some far behind: each gets
what is there, and the cluster is not asked for the same again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream import partition_log
from sharegroup.upstream.partition_log import CHUNK_BYTES, ClusterLog
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer
from tests.upstream.test_partition_log import TOPIC_ID, Leader

BATCH_BYTES = CHUNK_BYTES // 16
WHERE = TopicPartition("t", 0)
Scenario = Callable[["Partition", ClusterLog], Awaitable[None]]


class Partition(Leader):
    """A broker that leads a partition of batches with one record each.

    Attributes:
        fetched: how often it was asked for records, and was not asked by `follow`.
        sent: how many batches that has brought.
    """

    def __init__(self, server: ScriptedServer) -> None:
        super().__init__(server)
        self.batches: list[bytes] = []
        self.fetched = self.sent = self.known = 0

    def append(self, batches: int) -> None:
        for offset in range(self.known, self.known + batches):
            value = b"%d" % offset * 9 + b"." * BATCH_BYTES
            self.batches.append(encode_batch([(None, value)], timestamp_ms=0, base_offset=offset))
        self.known += batches

    def found(self, offset: int, end: int, bytes_max: int) -> bytes:
        """What a read must bring."""
        data = b""
        for batch in self.batches[offset:end]:
            if data and len(data) + len(batch) > bytes_max:
                break
            data += batch
        return data

    async def _fetch(self, request: Message, version: int) -> Message:
        assert isinstance(request, FetchRequest)
        [partition] = request.topics[0].partitions
        self.fetched += 1
        found = self.found(partition.fetch_offset, self.known, partition.partition_max_bytes)
        self.sent += len(found) // BATCH_BYTES
        return self._answer(found)

    def _answer(self, found: bytes) -> FetchResponse:
        part = PartitionData(
            high_watermark=self.known,
            last_stable_offset=self.known,
            log_start_offset=0,
            records=found,
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])

    async def follow(self, log: ClusterLog) -> None:
        """As ``Following`` does."""
        offset, room = log.high_watermark, log.has_room
        found = self.found(offset, self.known, CHUNK_BYTES if room else 1)
        answer = self._answer(found).responses[0].partitions[0]
        await (log.came(offset, answer) if room else log.grew(answer))


def plays(scenario: Scenario, batches: int) -> None:
    """With so many batches in the partition, all of them known."""

    async def play() -> None:
        async with ScriptedServer() as server:
            partition = Partition(server)
            partition.append(batches)
            async with Cluster(server.address) as cluster:
                log = ClusterLog(cluster, WHERE, TOPIC_ID, lambda _: None)
                await log.offsets()
                await scenario(partition, log)

    asyncio.run(asyncio.wait_for(play(), 60))


async def read(partition: Partition, log: ClusterLog, offset: int, bytes_max: int) -> int:
    """Read, and return how many batches there were: at least one, if there is one."""
    there = partition.found(offset, log.high_watermark, bytes_max)
    found = (await log.read(offset, bytes_max)).data
    assert there.startswith(found)
    assert bool(found) == bool(there)
    return len(found) // BATCH_BYTES


async def drain(partition: Partition, log: ClusterLog, offset: int) -> None:
    """Read to the end, two batches at a time."""
    while offset < log.high_watermark:
        offset += await read(partition, log, offset, 3 * BATCH_BYTES)


def test_a_backlog_is_read_in_large_pieces() -> None:
    async def scenario(partition: Partition, log: ClusterLog) -> None:
        await drain(partition, log, 0)
        assert partition.sent == 160, "each once"
        assert partition.fetched <= 160 // 15 + 2

    plays(scenario, 160)


def test_a_record_that_is_read_again_costs_no_large_piece() -> None:
    async def scenario(partition: Partition, log: ClusterLog) -> None:
        for offset in (40, 7, 90, 55):
            await log.read(offset, 1)
        assert partition.sent == 4

    plays(scenario, 160)


def test_who_is_behind_takes_nothing_from_who_is_at_the_end() -> None:
    async def scenario(partition: Partition, log: ClusterLog) -> None:
        for behind, end in enumerate(range(160, 200)):
            partition.append(1)
            await partition.follow(log)
            assert (await log.read(end, CHUNK_BYTES)).data == partition.batches[end]
            await log.read(behind, 1)
        assert partition.sent <= 3 * 16, "those behind, in large pieces, and none at the end"

    plays(scenario, 160)


def test_nobody_at_the_end_keeps_a_piece_of_it_and_no_more() -> None:
    async def scenario(partition: Partition, log: ClusterLog) -> None:
        came = 0
        for _ in range(64):
            partition.append(1)
            came += log.has_room
            await partition.follow(log)
        assert 15 <= came <= 17
        await drain(partition, log, 0)
        assert partition.sent <= 96
        partition.append(1)
        assert log.has_room, "who was behind is at the end"

    plays(scenario, 32)


def test_what_nobody_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(partition: Partition, log: ClusterLog) -> None:
        await drain(partition, log, 0)
        asked = partition.fetched
        log.is_known()
        await log.read(159, 1)
        assert partition.fetched == asked
        monkeypatch.setattr(partition_log, "KEPT_S", -1.0)
        log.is_known()
        await log.read(159, 1)
        assert partition.fetched == asked + 1
        partition.append(1)
        await partition.follow(log)
        await read(partition, log, 160, 1)
        assert partition.fetched == asked + 1, "it is followed as before"

    plays(scenario, 160)


@pytest.mark.parametrize("seed", range(20))
def test_each_reads_what_is_there(seed: int) -> None:
    chance = Random(seed)

    async def scenario(partition: Partition, log: ClusterLog) -> None:
        at = [0, 0, 40]
        for _ in range(150):
            one = chance.randrange(len(at))
            match chance.choice(("read", "read", "read", "jump", "append", "follow")):
                case "read":
                    bytes_max = chance.choice((1, BATCH_BYTES * 3, CHUNK_BYTES, CHUNK_BYTES * 2))
                    at[one] += await read(partition, log, at[one], bytes_max)
                case "jump":
                    at[one] = chance.randint(0, log.high_watermark)
                case "append":
                    partition.append(chance.randint(1, 20))
                case "follow":
                    await partition.follow(log)

    plays(scenario, 40)
