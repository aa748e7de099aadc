"""Batches over a topic's ``max.message.bytes``: they are sent again in parts, and only a record
that does not fit alone fails.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from sharegroup import Admin, Consumer, Producer, TopicPartition, sync
from sharegroup.model.errors import MessageTooLarge
from tests.client.working import fresh, run
from tests.servers.running import RunningServer

LIMIT = 10_000
PRODUCERS = [
    pytest.param({}, id="idempotent"),
    pytest.param({"enable_idempotence": False}, id="plain"),
    pytest.param({"compression": "zstd", "batch_size": 200_000}, id="compressed"),
    pytest.param({"batch_size": 100_000}, id="large"),
]


async def limited_topic(broker: RunningServer) -> str:
    topic = fresh("limited")
    async with Admin(broker.bootstrap) as admin:
        configs = {"max.message.bytes": str(LIMIT)}
        await admin.create_topics(topic, partitions=1, configs=configs)
    return topic


async def written(broker: RunningServer, topic: str, count: int) -> list[bytes]:
    """The values of all committed records, in order, once there are so many."""
    where = TopicPartition(topic, 0)
    values: list[bytes] = []
    async with Consumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        while len(values) < count:
            values += [record.value or b"" for record in await consumer.poll()]
    return values


def value(number: int, size: int = 1_000) -> bytes:
    """No codec makes it small."""
    return random.Random(number).randbytes(size)


@pytest.mark.parametrize("settings", PRODUCERS)
def test_all_records_arrive_in_order(broker: RunningServer, settings: dict[str, Any]) -> None:
    async def scenario() -> None:
        topic = await limited_topic(broker)
        values = [value(number) for number in range(100)]
        async with Producer(broker.bootstrap, **settings) as producer:
            sent = [await producer.enqueue(topic, one, headers=[("h", b"1")]) for one in values]
            await producer.flush()
            assert all(one.done() for one in sent)
            assert [(await one).offset for one in sent] == list(range(100))
        assert await written(broker, topic, 100) == values

    run(scenario)


def test_in_a_transaction(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await limited_topic(broker)
        values = [value(number) for number in range(100)]
        async with Producer(broker.bootstrap, transactional_id=fresh("tx")) as producer:
            for half in (values[:50], values[50:]):
                async with producer.transaction():
                    for one in half:
                        await producer.enqueue(topic, one)
        assert await written(broker, topic, 100) == values

    run(scenario)


@pytest.mark.parametrize("settings", PRODUCERS)
def test_one_large_record_fails_alone_and_is_named(
    broker: RunningServer, settings: dict[str, Any]
) -> None:
    async def scenario() -> None:
        topic = await limited_topic(broker)
        values = [value(n, 12_000 if n in (0, 33, 99) else 100) for n in range(100)]
        async with Producer(broker.bootstrap, **settings) as producer:
            sent = [producer.send(topic, one, key=f"k{n}") for n, one in enumerate(values)]
            results = await asyncio.gather(*sent, return_exceptions=True)
            failed = {n: one for n, one in enumerate(results) if isinstance(one, BaseException)}
            assert sorted(failed) == [0, 33, 99]
            for number, error in failed.items():
                assert isinstance(error, MessageTooLarge)
                assert f"with the key b'k{number}' is too large, even alone" in str(error)
        assert await written(broker, topic, 97) == [one for one in values if len(one) == 100]

    run(scenario)


def test_flush_counts_the_one_that_nobody_awaits(broker: RunningServer) -> None:
    async def scenario() -> None:
        topic = await limited_topic(broker)
        async with Producer(broker.bootstrap) as producer:
            for number in range(9):
                await producer.enqueue(topic, value(number, 12_000 if number == 4 else 100))
            with pytest.raises(MessageTooLarge, match="without a key") as raised:
                await producer.flush()
            assert raised.value.__notes__[0].endswith("that failed: 1")
        assert len(await written(broker, topic, 8)) == 8

    run(scenario)


def test_later_batches_are_made_small_enough(
    broker: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        topic = await limited_topic(broker)
        with caplog.at_level("INFO", "sharegroup.client"):
            async with Producer(broker.bootstrap) as producer:
                await asyncio.gather(*(producer.send(topic, value(n)) for n in range(16)))
                assert "sending a batch again in 3 parts" in caplog.text
                caplog.clear()
                await asyncio.gather(*(producer.send(topic, value(n)) for n in range(16, 64)))
                assert "sending a batch again" not in caplog.text
        assert len(await written(broker, topic, 64)) == 64

    run(scenario)


def test_without_asyncio(broker: RunningServer) -> None:
    topic = fresh("limited")
    with sync.Admin(broker.bootstrap) as admin:
        admin.create_topics(topic, partitions=1, configs={"max.message.bytes": str(LIMIT)})
    with sync.Producer(broker.bootstrap) as producer:
        for number in range(100):
            producer.enqueue(topic, value(number))

    async def all_there() -> None:
        assert await written(broker, topic, 100) == [value(number) for number in range(100)]

    run(all_there)
