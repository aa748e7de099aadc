"""Quotas in force: what is throttled, for how long, and who is not disturbed. Virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.metrics.quotas import QUOTAS
from sharegroup.broker.metrics.table import Scrape
from sharegroup.broker.quotas import Timed
from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.model.errors import ThrottlingQuotaExceeded
from sharegroup.model.histogram import Histogram
from sharegroup.sim import MemoryDisk
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.framing import request_frame
from sharegroup.wire.messages import fetch, produce
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.by_hand import GROUP, TIMEOUT_MS, Member, connect, topic_with_records
from tests.broker.quota_wire import Parts, set_quota
from tests.broker.running import run
from tests.broker.share_wire import until
from tests.servers.share_session import Session
from tests.sim.test_broker_in_virtual_time import simulate, start

MINE = [("client-id", "by-hand")]
KIB = 1 << 10


def produced(size: int, acks: int = -1) -> produce.ProduceRequest:
    batch = encode_batch([(b"k", bytes(size))], timestamp_ms=0)
    data = produce.TopicProduceData("jobs", partition_data=[produce.PartitionProduceData(0, batch)])
    return produce.ProduceRequest(None, acks, 1_000, [data])


def fetched(offset: int, most: int = 1 << 30, wait_ms: int = 0) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=most)
    topic = fetch.FetchTopic(topic="jobs", partitions=[part])
    return fetch.FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=most, session_epoch=-1, topics=[topic]
    )


def records_of(answer: fetch.FetchResponse) -> int:
    return len(answer.responses[0].partitions[0].records or b"")


def counts(broker: Broker) -> dict[tuple[str, ...], float]:
    """The metrics of quotas, by name and label."""
    found = {}
    for sample in QUOTAS.read(Scrape(broker.parts, Histogram(), {})):
        assert isinstance(sample.value, int | float)
        found[sample.metric.name, *sample.labels] = sample.value
    return found


async def ask(connection: Connection, api: apis.Api, request: Any) -> tuple[Any, float]:
    """The answer, and the seconds that it took."""
    loop = asyncio.get_running_loop()
    before_s = loop.time()
    answer = await connection.send(
        api, request, timeout_ms=100 * TIMEOUT_MS, version_max=LAST_BY_NAME.get(api)
    )
    return answer, loop.time() - before_s


@pytest.mark.parametrize(
    "whose",
    [
        MINE,
        [("client-id", None)],
        [("user", "ANONYMOUS")],
        [("user", None)],
        [("client-id", "by-hand"), ("user", "ANONYMOUS")],
        [("client-id", None), ("user", None)],
    ],
)
def test_a_producer_over_its_quota_is_answered_at_once_and_then_muted(whose: Parts) -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        connection, other = await connect(port), await connect(port)
        await set_quota(other, whose, producer_byte_rate=10 * KIB)
        answer, took_s = await ask(connection, apis.PRODUCE, produced(90 * KIB))
        assert answer.throttle_time_ms == 0, "a first burst may use the window"
        answer, took_s = await ask(connection, apis.PRODUCE, produced(90 * KIB))
        assert took_s < 0.1
        assert 7_900 < answer.throttle_time_ms < 8_300
        _, took_s = await ask(other, apis.METADATA, MetadataRequest([]))
        assert took_s < 0.1, "another connection of the client"
        _, took_s = await ask(connection, apis.METADATA, MetadataRequest([]))
        assert took_s == pytest.approx(answer.throttle_time_ms / 1000, abs=0.1)
        await broker.close()

    assert simulate(scenario) < 30


def test_a_steady_producer_gets_its_rate() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        connection = await connect(port)
        await set_quota(connection, MINE, producer_byte_rate=10 * KIB)
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        for _ in range(100):
            await ask(connection, apis.PRODUCE, produced(10 * KIB))
        assert 85 < loop.time() - before_s < 105
        counted = counts(broker)
        quota = "producer_byte_rate"
        assert counted["sharegroup_throttled_total", quota] > 50
        assert counted["sharegroup_throttle_seconds_total", quota] == pytest.approx(90, rel=0.15)
        assert counted["sharegroup_throttled_total", "consumer_byte_rate"] == 0
        assert counted["sharegroup_quota_rates",] == 1
        await broker.close()

    simulate(scenario)


def test_a_producer_that_wants_no_answer_is_muted_too() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        connection = await connect(port)
        await set_quota(connection, MINE, producer_byte_rate=10 * KIB)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        frame = request_frame(apis.PRODUCE, 9, 1, "by-hand", produced(200 * KIB, acks=0))
        writer.write(b"".join(frame))
        await asyncio.sleep(0.1)
        asked = request_frame(apis.METADATA, 12, 2, "by-hand", MetadataRequest([]))
        writer.write(b"".join(asked))
        before_s = asyncio.get_running_loop().time()
        await reader.readexactly(4)
        assert 9 < asyncio.get_running_loop().time() - before_s < 11
        writer.close()
        await broker.close()

    simulate(scenario)


def test_a_fetch_gets_what_the_quota_leaves_and_is_throttled_for_what_is_more() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        connection = await connect(port)
        for _ in range(30):
            await ask(connection, apis.PRODUCE, produced(10 * KIB))
        await set_quota(connection, MINE, consumer_byte_rate=10 * KIB)
        answer, _ = await ask(connection, apis.FETCH, fetched(1))
        assert 80 * KIB < records_of(answer) < 100 * KIB, "of 300 KiB"
        assert answer.throttle_time_ms == 0
        answer, _ = await ask(connection, apis.FETCH, fetched(10))
        assert 10 * KIB < records_of(answer) < 20 * KIB, "one batch at least"
        assert 0 < answer.throttle_time_ms < 1_500
        _, took_s = await ask(connection, apis.METADATA, MetadataRequest([]))
        assert took_s == pytest.approx(answer.throttle_time_ms / 1000, abs=0.1)
        await broker.close()

    simulate(scenario)


def test_a_consumer_reads_everything_at_its_rate() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        connection = await connect(port)
        for _ in range(60):
            await ask(connection, apis.PRODUCE, produced(10 * KIB))
        await set_quota(connection, MINE, consumer_byte_rate=10 * KIB)
        loop = asyncio.get_running_loop()
        before_s, offset = loop.time(), 1
        while offset < 61:
            answer, _ = await ask(connection, apis.FETCH, fetched(offset, wait_ms=500))
            assert records_of(answer)
            offset += round(records_of(answer) / (10 * KIB))
        assert 45 < loop.time() - before_s < 65
        await broker.close()

    simulate(scenario)


def test_share_fetches_are_under_the_quota_of_consumers_and_lose_no_records() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        topic_id = await topic_with_records(broker, port, 1)
        connection = await connect(port)
        for _ in range(30):
            await ask(connection, apis.PRODUCE, produced(10 * KIB))
        member = await Member.join(port, "m1")
        await set_quota(connection, [("client-id", "m1")], consumer_byte_rate=10 * KIB)
        session = Session(member.connection, topic_id, "m1", GROUP)
        first = await session.fetch(0, max_records=1_000, batch_size=1_000)
        size = len(first.responses[0].partitions[0].records)
        assert 80 * KIB < size < 100 * KIB
        assert first.throttle_time_ms == 0
        second = await session.fetch(max_records=1_000, batch_size=1_000)
        part = second.responses[0].partitions[0]
        assert 10 * KIB < len(part.records) < 20 * KIB, "what is locked is sent"
        assert part.acquired_records
        assert second.throttle_time_ms > 0
        before_s = asyncio.get_running_loop().time()
        await session.fetch(max_records=1_000, batch_size=1_000)
        waited_s = asyncio.get_running_loop().time() - before_s
        assert waited_s == pytest.approx(second.throttle_time_ms / 1000, abs=0.1)
        await broker.close()

    simulate(scenario)


def test_a_quota_takes_effect_and_ends_without_a_new_connection() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        connection, admin = await connect(port), await connect(port)
        await set_quota(admin, MINE, producer_byte_rate=1)
        answer, _ = await ask(connection, apis.PRODUCE, produced(100))
        assert answer.throttle_time_ms > 100_000
        await set_quota(admin, MINE, producer_byte_rate=None)
        again = await connect(port)
        answer, _ = await ask(again, apis.PRODUCE, produced(1 << 19))
        assert answer.throttle_time_ms == 0
        await set_quota(admin, [("client-id", "somebody else")], producer_byte_rate=1)
        answer, _ = await ask(again, apis.PRODUCE, produced(1 << 19))
        assert answer.throttle_time_ms == 0
        await broker.close()

    simulate(scenario)


def test_a_muted_connection_is_closed_with_the_broker_and_when_it_is_idle() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, "connections.max.idle.ms=20000")
        await topic_with_records(broker, port, 1)
        admin = await connect(port)
        await set_quota(admin, [("client-id", "slow")], producer_byte_rate=1)
        before = set(broker.connections.all())
        slow = [
            await Connection.open("127.0.0.1", port, client_id="slow", timeout_ms=TIMEOUT_MS)
            for _ in range(2)
        ]
        answer, _ = await ask(slow[0], apis.PRODUCE, produced(100))
        assert answer.throttle_time_ms > 60_000
        slow[0].close()
        await asyncio.sleep(30)
        assert len(set(broker.connections.all()) - before) == 0
        again = await connect(port)
        await set_quota(again, MINE, producer_byte_rate=1)
        await ask(again, apis.PRODUCE, produced(100))
        before_s = asyncio.get_running_loop().time()
        await broker.close()
        assert asyncio.get_running_loop().time() - before_s < 1
        assert len(broker.connections) == 0

    simulate(scenario)


def test_requests_that_a_muted_client_has_sent_wait_their_turn() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        await topic_with_records(broker, port, 1)
        admin = await connect(port)
        await set_quota(admin, MINE, producer_byte_rate=10 * KIB)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        frame = b"".join(request_frame(apis.PRODUCE, 9, 1, "by-hand", produced(150 * KIB)))
        log = broker.parts.topics.log("jobs", 0)
        writer.write(2 * frame)
        await asyncio.sleep(0.1)
        assert log.log_end_offset == 3, "both had begun before one was answered"
        writer.write(8 * frame)
        await asyncio.sleep(10)
        assert log.log_end_offset == 3
        assert broker.connections.request_bytes < 2 * len(frame), "the rest is not even read"
        await asyncio.sleep(600)
        assert log.log_end_offset == 11, "all are written in the end"
        writer.close()
        await broker.close()

    simulate(scenario)


async def created(connection: Connection, name: str, partitions: int) -> tuple[int, int]:
    """(error code, throttle time in ms)"""
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)])
    answer, _ = await ask(connection, apis.CREATE_TOPICS, request)
    return answer.topics[0].error_code, answer.throttle_time_ms


def test_a_client_that_creates_too_many_partitions_is_refused_until_it_has_waited() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        connection, admin = await connect(port), await connect(port)
        await set_quota(admin, MINE, controller_mutation_rate=1)
        assert await created(connection, "t1", 5) == (0, 0)
        grow = CreatePartitionsRequest([CreatePartitionsTopic("t1", 8, None)])
        answer, _ = await ask(connection, apis.CREATE_PARTITIONS, grow)
        assert (answer.results[0].error_code, answer.throttle_time_ms) == (0, 0)
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState("t1")])
        answer, _ = await ask(connection, apis.DELETE_TOPICS, deletion)
        assert answer.responses[0].error_code == 0
        assert answer.throttle_time_ms == 0, "16 of 11: the last one may be of more"
        code, throttle_ms = await created(connection, "t2", 1)
        assert code == ThrottlingQuotaExceeded.code
        assert throttle_ms == pytest.approx(5_000, abs=20)
        assert broker.parts.topics.find("t2") is None
        assert await created(connection, "t2", 1) == (0, 0), "sent at once, and read after the wait"
        assert asyncio.get_running_loop().time() >= 5
        assert counts(broker)["sharegroup_throttled_total", "controller_mutation_rate"] == 1
        await broker.close()

    simulate(scenario)


def test_topics_that_are_made_because_somebody_asks_for_them_count_too() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        connection, admin = await connect(port), await connect(port)
        await set_quota(admin, MINE, controller_mutation_rate=1)
        wanted = [MetadataRequestTopic(name=f"t{number}") for number in range(12)]
        answer, _ = await ask(connection, apis.METADATA, MetadataRequest(wanted))
        assert [topic.error_code for topic in answer.topics] == [0] * 12
        assert answer.throttle_time_ms == pytest.approx(1_000, abs=20)
        await broker.close()

    simulate(scenario)


async def connected_s(port: int) -> float:
    """Seconds until a new connection is served; raises what ends it."""
    loop = asyncio.get_running_loop()
    before_s = loop.time()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(request_frame(apis.METADATA, 12, 1, "by-hand", MetadataRequest([]))))
    try:
        await reader.readexactly(4)
    finally:
        writer.close()
    return loop.time() - before_s


def test_an_address_that_connects_too_often_is_held_and_then_closed() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        admin = await connect(port)
        await set_quota(admin, [("ip", "127.0.0.1")], connection_creation_rate=1)
        for _ in range(10):
            assert await connected_s(port) < 0.1
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await connected_s(port)
        assert loop.time() - before_s == pytest.approx(1, abs=0.1)
        _, took_s = await ask(admin, apis.METADATA, MetadataRequest([]))
        assert took_s < 0.1, "connections that are there are not disturbed"
        counted = counts(broker)
        assert counted["sharegroup_throttled_total", "connection_creation_rate"] == 1
        await asyncio.sleep(12)
        assert await connected_s(port) < 0.1
        broker.parts.quotas.forget_idle()
        await broker.close()

    simulate(scenario)


def test_connections_over_the_rate_of_the_broker_wait_and_are_served() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, "max.connection.creation.rate=2")
        took_s = await asyncio.gather(*(connected_s(port) for _ in range(24)))
        assert max(took_s[:20]) < 0.1
        assert 0.4 < took_s[20] < took_s[21] < took_s[22] < took_s[23] < 5
        await broker.close()

    simulate(scenario)


def test_the_time_of_requests_throttles_for_a_window_at_most(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        admin = await Connection.open("127.0.0.1", port, client_id="admin", timeout_ms=TIMEOUT_MS)
        connection = await connect(port)
        await set_quota(admin, MINE, request_percentage=0.000001)
        answer, took_s = await ask(connection, apis.METADATA, MetadataRequest([]))
        assert answer.throttle_time_ms == 1_000
        assert took_s < 0.9
        answer, _ = await ask(admin, apis.METADATA, MetadataRequest([]))
        assert answer.throttle_time_ms == 0
        meter = broker.parts.quotas.meters["request_percentage"]
        await until(lambda: meter.throttled == 1)
        await set_quota(admin, MINE, request_percentage=100_000)
        answer, _ = await ask(await connect(port), apis.METADATA, MetadataRequest([]))
        assert answer.throttle_time_ms == 0

    run(tmp_path, scenario)


def test_the_time_of_a_wait_is_not_the_time_of_a_request() -> None:
    async def scenario(_: MemoryDisk) -> None:
        ticks = iter(range(100))

        async def work() -> str:
            await asyncio.sleep(60)
            await asyncio.sleep(60)
            return "done"

        timed = Timed(work(), lambda: float(next(ticks)))
        assert await timed == "done"
        assert timed.seconds == 3, "three steps between two waits, a tick each"

    assert simulate(scenario) >= 120


def test_timed_work_can_be_cancelled_and_can_fail() -> None:
    async def scenario(_: MemoryDisk) -> None:
        cleaned = []

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append(True)

        async def run_it() -> None:
            await Timed(work(), lambda: 0.0)

        task = asyncio.create_task(run_it())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == [True]

        async def fails() -> None:
            await asyncio.sleep(1)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await Timed(fails(), lambda: 0.0)

    simulate(scenario)
