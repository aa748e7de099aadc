"""aiokafka's producer, and its consumer by assignment."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.servers.running import RunningServer

pytestmark = pytest.mark.process


async def produce(bootstrap: str, topic: str, count: int, *, idempotent: bool) -> list[int]:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=idempotent
    ) as producer:
        sent = [await producer.send(topic, b"%d" % number, partition=0) for number in range(count)]
        return [(await done).offset for done in sent]


async def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        return [(await consumer.getone()).value for _ in range(count)]


@pytest.mark.parametrize("idempotent", [False, True])
def test_produce_and_read_back(broker: RunningServer, topic: str, idempotent: bool) -> None:
    async def work() -> tuple[list[int], list[bytes | None]]:
        offsets = await produce(broker.bootstrap, topic, 500, idempotent=idempotent)
        return offsets, await read(broker.bootstrap, topic, 500)

    offsets, values = asyncio.run(asyncio.wait_for(work(), 120))

    assert offsets == list(range(500))
    assert values == [b"%d" % number for number in range(500)]
