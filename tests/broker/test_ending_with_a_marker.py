"""A log that ends with a transaction's marker is read to its end: the position of a consumer
reaches the end offset that it is told, though no record has the last offset."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition

from sharegroup.broker.server import Broker
from sharegroup.client import Consumer
from tests.broker.running import run
from tests.broker.share_wire import TOPIC, new_topic, produce, until
from tests.broker.transaction_wire import TransactionalProducer, close_all
from tests.cli.command import Commands

LEVELS = ("read_committed", "read_uncommitted")


async def ends_with_a_marker(broker: Broker, port: int, *, commit: bool) -> None:
    """A record, one of a transaction, and its marker."""
    topic_id = await new_topic(broker, port, 1)
    await produce(port, topic_id, 0, 1)
    producer = await TransactionalProducer.start(port)
    assert await producer.write({0: b"in it"}) == [0]
    assert await producer.end(commit=commit) == 0
    await close_all()
    log = broker.parts.topics.log(TOPIC, 0)
    await until(lambda: log.last_stable_offset == 3)


async def by_ours(server: str, level: str) -> list[int]:
    offsets = []
    async with Consumer(
        bootstrap_servers=server, isolation_level=level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(TOPIC, 0)])
        [end] = (await consumer.end_offsets((TOPIC, 0))).values()
        while await consumer.position(TOPIC, 0) < end:
            offsets += [record.offset for record in await consumer.poll(100)]
    return offsets


async def by_aiokafka(server: str, level: str) -> list[int]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=server, isolation_level=level, auto_offset_reset="earliest"
    )
    where = AioTopicPartition(TOPIC, 0)
    offsets = []
    await consumer.start()
    try:
        consumer.assign([where])
        end = (await consumer.end_offsets([where]))[where]
        while await consumer.position(where) < end:
            found = await consumer.getmany(timeout_ms=100)
            offsets += [record.offset for record in found.get(where, ())]
    finally:
        await consumer.stop()
    return offsets


async def by_kafka_python(server: str, level: str) -> list[int]:
    def read() -> list[int]:
        where = PythonTopicPartition(TOPIC, 0)
        consumer = KafkaConsumer(
            bootstrap_servers=server, isolation_level=level, auto_offset_reset="earliest"
        )
        offsets = []
        try:
            consumer.assign([where])
            end = consumer.end_offsets([where])[where]
            while consumer.position(where) < end:
                found = consumer.poll(timeout_ms=100)
                offsets += [record.offset for record in found.get(where, ())]
        finally:
            consumer.close()
        return offsets

    return await asyncio.to_thread(read)


READERS = {"ours": by_ours, "aiokafka": by_aiokafka, "kafka-python": by_kafka_python}


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("reader", READERS)
def test_the_position_reaches_the_end(
    reader: str, level: str, commit: bool, tmp_path: Path
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await ends_with_a_marker(broker, port, commit=commit)
        offsets = await READERS[reader](f"127.0.0.1:{port}", level)
        assert offsets == ([0, 1] if commit or level == "read_uncommitted" else [0])

    run(tmp_path, scenario)


@pytest.mark.process
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_command_line_ends_there(level: str, commit: bool, tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        await ends_with_a_marker(broker, port, commit=commit)
        peek = ("consume", TOPIC, "--peek", "--isolation-level", level)
        words = (*peek, "--until", "latest", "--json")
        done = await asyncio.to_thread(Commands(f"127.0.0.1:{port}").run, *words)
        assert done.status == 0, done.stderr
        there = commit or level == "read_uncommitted"
        assert [line["offset"] for line in done.json_lines] == ([0, 1] if there else [0])

    run(tmp_path, scenario)
