"""Deduplication at enqueue over a socket: stock producers and ours, transactions, a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer

from sharegroup.client import Admin, Producer, ShareConsumer
from sharegroup.model.errors import KafkaError
from sharegroup.records.message_ids import MESSAGE_ID
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker

TOPIC = "orders"
WINDOW = "deduplication.window.ms"
HOUR_MS = 3_600_000


def run_with(kafka: LocalBroker, scenario: Callable[[LocalBroker], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            async with Admin(kafka.bootstrap) as admin:
                await admin.create_topics(TOPIC, configs={WINDOW: str(HOUR_MS)})
            await scenario(kafka)

    with kafka:
        asyncio.run(limited())


def ids(*names: str) -> list[Any]:
    return [(MESSAGE_ID, name.encode()) for name in names]


async def values(kafka: LocalBroker, count: int) -> list[bytes | None]:
    """The values of a share group's ``count`` records, which is all there is."""
    async with Admin(kafka.bootstrap) as admin:
        settings = {"share.auto.offset.reset": "earliest"}
        settings["share.isolation.level"] = "read_committed"
        await admin.alter_configs("group", "readers", settings)
    found: list[bytes | None] = []
    async with ShareConsumer(
        TOPIC, group_id="readers", bootstrap_servers=kafka.bootstrap, fetch_max_wait_ms=50
    ) as consumer:
        while len(found) < count:
            found += [record.value for record in await consumer.poll()]
    return found


def test_our_producer_is_told_where_the_first_record_is() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with Producer(kafka.bootstrap) as producer:
            first = await producer.send(TOPIC, b"1", message_id="a")
            again = await producer.send(TOPIC, b"2", message_id=b"a")
            assert (first.offset, first.repeated) == (0, False)
            assert (again.offset, again.repeated) == (0, True)
            names = ["b", "a", "c", "b", "d"]
            sent = [await producer.enqueue(TOPIC, name, message_id=name) for name in names]
            await producer.flush()
            where = [await each for each in sent]
            assert [each.repeated for each in where] == [False, True, False, True, False]
            assert where[1].offset == 0
            assert where[3].offset == where[0].offset
            with pytest.raises(ValueError, match="message_id is empty"):
                producer.send(TOPIC, b"", message_id="")
        assert await values(kafka, 4) == [b"1", b"b", b"c", b"d"]

    run_with(broker(), scenario)


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_aiokafka(compression: str | None, idempotent: bool) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap,
            compression_type=compression,
            enable_idempotence=idempotent,
            acks="all",
            max_batch_size=1 << 20,
        )
        async with producer:
            first = await producer.send_and_wait(TOPIC, b"1", headers=ids("a"))
            again = await producer.send_and_wait(TOPIC, b"2", headers=ids("a"))
            assert (first.offset, again.offset) == (0, 0)
            batch = producer.create_batch()
            for name in ("a", "b", "c", "b"):
                value = name.encode() * 20_000  # compressed, it is taken apart in a thread
                assert batch.append(key=None, value=value, timestamp=None, headers=ids(name))
            sent = await (await producer.send_batch(batch, TOPIC, partition=0))
            last = await producer.send_and_wait(TOPIC, b"3", headers=ids("d"))
            assert last.offset == sent.offset + 4
        assert await values(kafka, 4) == [b"1", b"b" * 20_000, b"c" * 20_000, b"3"]

    run_with(broker(), scenario)


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_librdkafka(compression: str, idempotent: bool) -> None:
    def produced(kafka: LocalBroker) -> list[tuple[bytes, int]]:
        told: list[tuple[bytes, int]] = []

        def on_delivery(error: Any, message: Any) -> None:
            assert error is None, error
            told.append((message.value(), message.offset()))

        producer = ConfluentProducer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "enable.idempotence": idempotent,
                "compression.type": compression,
                "linger.ms": 0,
            }
        )
        for number, name in enumerate(["a", "b", "a", "c", "b", "c", "d"]):
            value = b"%d" % number
            producer.produce(TOPIC, value, headers=ids(name), on_delivery=on_delivery)
            if number in (1, 2, 3):
                assert producer.flush(30) == 0
        assert producer.flush(30) == 0
        return told

    async def scenario(kafka: LocalBroker) -> None:
        told = dict(await asyncio.to_thread(produced, kafka))
        assert len(told) == 7
        assert told[b"2"] == told[b"0"]
        assert await values(kafka, 4) == [b"0", b"1", b"3", b"6"]

    run_with(broker(), scenario)


def test_transactions_of_aiokafka() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        settings = {"bootstrap_servers": kafka.bootstrap, "transactional_id": "t"}
        async with AIOKafkaProducer(**settings) as writer, Producer(kafka.bootstrap) as other:
            await writer.begin_transaction()
            first = await writer.send_and_wait(TOPIC, b"1", headers=ids("a"))
            twice = await writer.send_and_wait(TOPIC, b"2", headers=ids("a"))
            assert (first.offset, twice.offset) == (0, 0)
            waiting = other.send(TOPIC, b"3", message_id="a")  # it is sent again until then
            await writer.abort_transaction()
            where = await waiting
            assert not where.repeated
            await writer.begin_transaction()
            late = await writer.send_and_wait(TOPIC, b"4", headers=ids("a"))
            assert late.offset == where.offset
            await writer.send_and_wait(TOPIC, b"5", headers=ids("b"))
            await writer.commit_transaction()
            assert (await other.send(TOPIC, b"6", message_id="b")).repeated
        assert await values(kafka, 2) == [b"3", b"5"]

    run_with(broker(), scenario)


def test_a_kill_and_a_restart() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with Producer(kafka.bootstrap) as producer:
            names = [f"{number}" for number in range(200)]
            for name in names:
                await producer.enqueue(TOPIC, name, message_id=name)
            await producer.flush()
            kafka.kill()
            kafka.start()
            again = [await producer.enqueue(TOPIC, b"again", message_id=name) for name in names]
            await producer.flush()
            assert all([(await each).repeated for each in again])
            assert not (await producer.send(TOPIC, b"new", message_id="new")).repeated
        found = await values(kafka, 201)
        assert found == [name.encode() for name in [*names, "new"]]

    run_with(broker(), scenario)


def test_a_window_that_is_no_number_is_refused() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with Admin(kafka.bootstrap) as admin:
            for wrong in ("-1", "soon"):
                with pytest.raises(KafkaError):
                    await admin.alter_configs("topic", TOPIC, {WINDOW: wrong})
            await admin.alter_configs("topic", TOPIC, {WINDOW: "0"})
        async with Producer(kafka.bootstrap) as producer:
            sent = [await producer.send(TOPIC, b"1", message_id="a") for _ in range(2)]
            assert [each.offset for each in sent] == [0, 1]

    run_with(broker(), scenario)
