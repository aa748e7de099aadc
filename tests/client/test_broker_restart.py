"""A broker that is killed and started again: nothing is lost, and nothing is produced twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.client import Producer, Record, ShareConsumer
from sharegroup.model.errors import RetriableError
from tests.client.working import WAIT_S, numbers, poll_until, run, topic_with
from tests.servers.sharegroup_server import SharegroupServer

COUNT = 400

pytestmark = pytest.mark.process


async def produce_slowly(bootstrap: str, topic: str) -> list[int]:
    """The offsets, in the order of sending."""
    async with Producer(bootstrap, batch_size=200) as producer:
        sent = []
        for number in range(COUNT):
            sent.append(await producer.enqueue(topic, str(number)))
            await asyncio.sleep(0.002)
        return [(await one).offset for one in sent]


async def consume(
    consumer: ShareConsumer, records: list[Record], under_load: asyncio.Event
) -> None:
    """Until every number was seen; returns after its commit went through."""
    seen: set[int] = set()
    async for record in consumer:
        records.append(record)
        seen.add(int(record.value or b"-1"))
        if len(seen) == COUNT // 4:
            under_load.set()
        if len(seen) == COUNT:
            await consumer.commit()
            return


def test_producer_and_consumer_survive_a_broker_restart(tmp_path: Path) -> None:
    async def scenario(server: SharegroupServer) -> None:
        topic, group = await topic_with(server.bootstrap, 0)
        records: list[Record] = []
        async with (
            asyncio.timeout(WAIT_S),
            ShareConsumer(topic, group_id=group, bootstrap_servers=server.bootstrap) as consumer,
        ):
            producing = asyncio.create_task(produce_slowly(server.bootstrap, topic))
            under_load = asyncio.Event()
            consuming = asyncio.create_task(consume(consumer, records, under_load))
            await under_load.wait()
            server.kill()
            await asyncio.to_thread(server.start)
            assert await producing == list(range(COUNT))
            await consuming
        assert sorted(set(numbers(records))) == list(range(COUNT))

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))


def test_a_failed_commit_is_reported_and_the_records_are_redelivered(tmp_path: Path) -> None:
    async def scenario(server: SharegroupServer) -> None:
        topic, group = await topic_with(server.bootstrap, 5)
        async with ShareConsumer(
            topic, group_id=group, bootstrap_servers=server.bootstrap
        ) as consumer:
            await poll_until(consumer, 5)
            server.kill()
            [error] = (await consumer.commit()).values()
            assert isinstance(error, RetriableError)
            await asyncio.to_thread(server.start)
            again = await poll_until(consumer, 5)
            assert set((await consumer.commit()).values()) == {None}
        assert numbers(again) == list(range(5))

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))


def test_closing_needs_no_broker(tmp_path: Path) -> None:
    async def scenario(server: SharegroupServer) -> None:
        topic, group = await topic_with(server.bootstrap, 5)
        async with (
            asyncio.timeout(25),
            ShareConsumer(topic, group_id=group, bootstrap_servers=server.bootstrap) as consumer,
        ):
            await poll_until(consumer, 5)
            server.kill()

    with SharegroupServer(tmp_path) as server:
        run(lambda: scenario(server))
