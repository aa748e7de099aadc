"""The producer, against our broker and Apache Kafka."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client import Admin, OffsetSpec, Producer
from sharegroup.client.producer.partitioner import partition_of_key
from sharegroup.client.producer.settings import CODECS
from sharegroup.model.errors import ConfigError, InvalidPartitions, InvalidTopic, MessageTooLarge
from sharegroup.model.ids import TopicPartition
from tests.client.test_share_consumer import consumer_of
from tests.client.working import WAIT_S, fresh, poll_until, run, topic_with
from tests.servers.running import RunningServer

COUNT = 500


@pytest.mark.parametrize("compression", CODECS)
def test_records_arrive_whole_and_in_order(broker: RunningServer, compression: str) -> None:
    async def scenario() -> None:
        topic, group = await topic_with(broker.bootstrap, 0)
        async with Producer(broker.bootstrap, compression=compression, batch_size=500) as producer:
            sent = [
                producer.send(
                    topic, b"v%d" % number, key="k", headers=[("h", None)], timestamp_ms=number
                )
                for number in range(COUNT)
            ]
            assert [(await one).offset for one in sent] == list(range(COUNT))
            assert (await sent[7]).timestamp == 7
        async with consumer_of(broker, topic, group) as consumer:
            records = await poll_until(consumer, COUNT)
        assert [record.value for record in records] == [b"v%d" % n for n in range(COUNT)]
        assert {(r.key, *r.headers) for r in records} == {(b"k", ("h", None))}
        assert [record.timestamp for record in records] == list(range(COUNT))

    run(scenario)


def test_keys_and_partitions(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 0, partitions=3)
        async with Producer(broker.bootstrap) as producer:
            for key in ("a", "b", "c", "d"):
                where = await producer.send(topic, key=key)
                assert where.partition == partition_of_key(key.encode(), 3)
            assert (await producer.send(topic, "x", partition=2)).partition == 2
            with pytest.raises(InvalidPartitions, match="no 3"):
                await producer.send(topic, "x", partition=3)
            together = [producer.send(topic, "x") for _ in range(10)]
            assert len({(await one).partition for one in together}) == 1

    run(scenario)


def test_a_record_is_durable_when_send_was_awaited(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 0)
        where = TopicPartition(topic, 0)
        async with Producer(broker.bootstrap) as producer, Admin(broker.bootstrap) as admin:
            assert await producer.send(topic, b"a", timestamp_ms=5) == (topic, 0, 0, 5)
            assert (await admin.list_offsets([where]))[where].offset == 1
            assert (await producer.send_and_wait(topic, b"b")).offset == 1
            assert (await admin.list_offsets([where]))[where].offset == 2
            queued = await producer.enqueue(topic, b"c")
            assert (await asyncio.wait_for(queued, WAIT_S)).offset == 2
            several = await asyncio.gather(*(producer.send(topic, b"d") for _ in range(3)))
            assert [one.offset for one in several] == [3, 4, 5]

    run(scenario)


def test_a_topic_that_the_first_record_creates(broker: RunningServer) -> None:
    async def scenario() -> None:
        async with Producer(broker.bootstrap) as producer:
            assert (await producer.send(fresh("new"), b"x")).offset == 0
            with pytest.raises(InvalidTopic, match="'not a name' is refused"):
                await producer.send("not a name", b"x")

    run(scenario)


def test_flush_raises_unawaited_errors_and_the_partition_continues(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = fresh("small")
        async with Admin(broker.bootstrap) as admin:
            await admin.create_topics(topic, partitions=1, configs={"max.message.bytes": "2000"})
        async with Producer(broker.bootstrap, batch_size=100) as producer:
            producer.send(topic, b"before")
            producer.send(topic, bytes(3_000))
            producer.send(topic, b"after")
            with pytest.raises(MessageTooLarge) as failed:
                await producer.flush()
            assert failed.value.__notes__[0].endswith("failed: 1")
            refused = producer.send(topic, bytes(3_000))
            with pytest.raises(MessageTooLarge):
                await refused
            await producer.flush()
            assert (await producer.send(topic, b"last")).offset == 2

    run(scenario)


def test_a_full_buffer_makes_send_wait(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 0)
        async with Producer(broker.bootstrap, buffer_memory=3_000, max_block_ms=10_000) as producer:
            for _ in range(100):
                await producer.enqueue(topic, bytes(1_000))
                assert producer._buffer.size <= 3_000
            await asyncio.gather(*(awaited(producer, topic) for _ in range(20)))
            await producer.flush()
        async with Admin(broker.bootstrap) as admin:
            [end] = (await admin.list_offsets([TopicPartition(topic, 0)])).values()
            assert end.offset == 120

    run(scenario)


async def awaited(producer: Producer, topic: str) -> None:
    await producer.send(topic, bytes(1_000))


def test_linger_gathers(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 0)
        async with Producer(broker.bootstrap, linger_ms=50) as producer:
            first = producer.send(topic, b"a")
            await producer.start()
            second = producer.send(topic, b"b")
            await second
            assert first._batch is second._batch
            assert (await second).offset == 1

    run(scenario)


def test_without_idempotence(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 0)
        async with Producer(broker.bootstrap, enable_idempotence=False, batch_size=200) as producer:
            sent = [producer.send(topic, b"%d" % n) for n in range(100)]
            assert [(await one).offset for one in sent] == list(range(100))

    run(scenario)


def test_offsets_by_time(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic, _ = await topic_with(broker.bootstrap, 0)
        where = TopicPartition(topic, 0)
        async with Producer(broker.bootstrap) as producer, Admin(broker.bootstrap) as admin:
            for number in range(5):
                await producer.send(topic, b"x", timestamp_ms=1_000 * number)
            assert (await admin.list_offsets([where], OffsetSpec.EARLIEST))[where].offset == 0
            assert (await admin.list_offsets([where]))[where].offset == 5
            found = (await admin.list_offsets([where], 2_500))[where]
            assert (found.offset, found.timestamp) == (3, 3_000)

    run(scenario)


@pytest.mark.parametrize("settings", [{"compression": "rar"}, {"acks": 0}])
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Producer(**settings)  # type: ignore[arg-type]
