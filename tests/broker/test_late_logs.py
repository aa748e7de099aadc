"""A broker whose topics have logs as if in another cluster: they answer late, and an offset is
known only once an answer has told it. Its internal topics are its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker import server
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Consumer, Producer, ShareConsumer
from sharegroup.model.errors import OffsetOutOfRange
from sharegroup.model.ids import TopicPartition
from sharegroup.model.store import Store
from tests.broker.running import run
from tests.client.working import numbers
from tests.storage.late_store import LateLog, LateStore

TOPIC = "jobs"
COUNT = 40
WHERE = [TopicPartition(TOPIC, partition) for partition in range(2)]


@pytest.fixture(autouse=True)
def late_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = server.open_local_store

    async def open_late(*args: object, **settings: object) -> Store:
        return LateStore(await opening(*args, **settings))

    monkeypatch.setattr(server, "open_local_store", open_late)


async def produce(address: str, first: int) -> None:
    async with Producer(address) as producer:
        for number in range(first, first + COUNT):
            await producer.enqueue(TOPIC, b"%d" % number, partition=number % 2)


async def read_on(consumer: Consumer) -> None:
    """Read for ever."""
    while True:
        await consumer.poll()


async def made(broker: Broker, port: int) -> str:
    """The address of the broker, which has the topic."""
    address = f"127.0.0.1:{port}"
    async with Admin(address) as admin:
        await admin.create_topics(TOPIC, partitions=2)
        await admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
    assert isinstance(broker.parts.topics.log(TOPIC, 0), LateLog)
    return address


def test_a_share_group_gets_every_record_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        address = await made(broker, port)
        await produce(address, 0)
        got = []
        async with ShareConsumer(TOPIC, group_id="g", bootstrap_servers=address) as consumer:
            more = asyncio.create_task(produce(address, COUNT))
            async for record in consumer:
                got.append(record)
                if len(got) == 2 * COUNT:
                    assert set((await consumer.commit()).values()) == {None}
                    break
            await more
        assert numbers(got) == list(range(2 * COUNT))
        assert {record.delivery_count for record in got} == {1}

    run(tmp_path, scenario)


def test_records_from_before_the_start_are_read_and_found(tmp_path: Path) -> None:
    async def before(broker: Broker, port: int) -> None:
        await produce(await made(broker, port), 0)

    async def after(broker: Broker, port: int) -> None:
        address = f"127.0.0.1:{port}"
        async with Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            consumer.assign(WHERE)
            got = []
            async for record in consumer:
                got.append(record)
                if len(got) == COUNT:
                    break
            assert numbers(got) == list(range(COUNT))
            assert await consumer.end_offsets(*WHERE) == dict.fromkeys(WHERE, COUNT // 2)
            assert await consumer.beginning_offsets(*WHERE) == dict.fromkeys(WHERE, 0)
            assert await consumer.offsets_for_times({WHERE[0]: 2**42}) == {WHERE[0]: None}

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_fetch_outside_of_what_is_known_asks_the_log(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        address = await made(broker, port)
        await produce(address, 0)
        log = broker.parts.topics.log(TOPIC, 0)
        log.forget()
        async with Consumer(bootstrap_servers=address, auto_offset_reset="none") as consumer:
            consumer.assign(WHERE[:1])
            consumer.seek(*WHERE[0], 5)
            async for record in consumer:
                assert record.offset == 5
                break
            consumer.seek(*WHERE[0], COUNT)
            with pytest.raises(OffsetOutOfRange):
                await read_on(consumer)

    run(tmp_path, scenario)
