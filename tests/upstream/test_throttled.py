"""A cluster that throttles who reads: Apache Kafka answers such a Fetch without any topic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import OffsetNotAvailable
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream import shared_log
from sharegroup.upstream.following import Following
from sharegroup.upstream.partition_log import ClusterLog
from sharegroup.upstream.raw_log import RawLog
from sharegroup.upstream.shared_log import SharedLog
from sharegroup.upstream.state_log import Record
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.fetch import FetchRequest, FetchResponse
from sharegroup.wire.schema import Message
from tests.client.scripted_server import ScriptedServer
from tests.upstream.leading import TOPIC_ID, Broker, Moves

WHERE = TopicPartition("t", 0)


class Throttling(Broker):
    """Refuses the next answers that it is told to refuse; a record has the key ``k``."""

    refuses = 0
    refused = 0

    async def _fetch(self, request: Message, version: int) -> Message:
        assert isinstance(request, FetchRequest)
        if self.refuses:
            self.refuses -= 1
            self.refused += 1
            return FetchResponse(throttle_time_ms=1)
        return await super()._fetch(request, version)

    def append(self, partition: int, *, magic: int = 2) -> None:
        one = self.partitions[partition]
        one.batches.append(encode_batch([(b"k", b"v")], timestamp_ms=0, base_offset=one.end))
        self._news.set()


def taking(
    cluster: Cluster, take: Callable[[Record, bool], None] = lambda _record, _own: None
) -> SharedLog:
    return SharedLog(cluster, WHERE, "shared", lambda: 0, take)


def test_one_attempt_says_so_and_the_next_one_reads() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            broker = Throttling(server, 1)
            broker.append(0)
            broker.refuses = 1
            async with Cluster(server.address) as cluster:
                log = RawLog(cluster, WHERE, "read")
                with pytest.raises(OffsetNotAvailable, match="throttles who reads t-0"):
                    await log.read(0, 1 << 20)
                assert (await log.read(0, 1 << 20)).records == broker.partitions[0].batches[0]

                followed = ClusterLog(cluster, WHERE, TOPIC_ID, lambda _: None)
                broker.refuses = 2
                await followed.offsets()
                data = (await followed.read(0, 1 << 20)).data
                assert (data, broker.refuses) == (broker.partitions[0].batches[0], 0)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_all_brokers_read_goes_on() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            broker = Throttling(server, 1)
            broker.append(0)
            broker.refuses = 2
            async with Cluster(server.address) as cluster:
                log = taking(cluster)
                assert [record[1:] async for record in log.read_all()] == [(b"k", b"v")]
                broker.append(0)
                broker.refuses = 2
                log.follow()
                await log.read_to_end()
                assert (log.end, broker.refused) == (2, 4)
                await log.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_partitions_are_followed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server:
            broker = Throttling(server, 1)
            broker.refuses = 3
            async with Cluster(server.address) as cluster:
                follows = Following(cluster)
                follows.start()
                log = ClusterLog(cluster, WHERE, TOPIC_ID, follows.follow)
                await log.offsets()
                known: list[int] = []
                monkeypatch.setattr(log, "is_known", lambda: known.append(broker.refuses))
                log.follow(lambda: True)
                broker.append(0)
                await Moves([log]).until(lambda: log.high_watermark == 1)
                assert (broker.refused, known[0]) == (3, 0), "such an answer tells nothing"
                await follows.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_record_that_cannot_be_taken_in_ends_nothing_and_is_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_log, "PAUSE_S", 0.0)
    taken: list[int] = []

    def take(record: Record, _own: bool) -> None:
        if record[0] == 1:
            raise ValueError(record)
        taken.append(record[0])

    async def scenario() -> None:
        async with ScriptedServer() as server:
            broker = Throttling(server, 1)
            for _ in range(3):
                broker.append(0)
            async with Cluster(server.address) as cluster:
                log = taking(cluster, take)
                log.follow()
                with caplog.at_level(logging.ERROR, "sharegroup.broker"):
                    await log.read_to_end()
                assert taken == [0, 2]
                [line] = [one.getMessage() for one in caplog.records]
                assert line == "t-0 goes on at offset 2"
                await log.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
