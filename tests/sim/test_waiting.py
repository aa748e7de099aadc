"""How a poll of our share consumer waits when there is nothing, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharegroup.client import Admin, ShareConsumer, Wakeup
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.share_member import ShareMember
from sharegroup.sim import MemoryDisk
from tests.broker.share_wire import GROUP, TOPIC, new_topic, produce
from tests.client.worker_jobs import nothing
from tests.client.working import poll_until, until
from tests.sim.test_broker_in_virtual_time import simulate, start


@pytest.mark.parametrize("timeout_ms", [1_001, 10.5])
def test_the_last_part_of_a_millisecond_is_not_spent_asking(
    timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch waits for whole milliseconds, and 1.001 s are 1,000 of them when cut off."""
    fetch, asked = ShareMember.fetch, 0

    async def counted(member: ShareMember, **limits: Any) -> Any:
        nonlocal asked
        asked += 1
        assert asked < 10, "it asks again and again"
        return await fetch(member, **limits)

    monkeypatch.setattr(ShareMember, "fetch", counted)

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        async with ShareConsumer(
            "nothing", group_id="g", bootstrap_servers=f"127.0.0.1:{port}"
        ) as consumer:
            now_s = asyncio.get_running_loop().time
            began_s = now_s()
            assert not await consumer.poll(timeout_ms)
            assert timeout_ms - 1.01 <= (now_s() - began_s) * 1_000 <= timeout_ms + 20
        await broker.close()

    simulate(scenario)


async def waits(consumer: ShareConsumer, polling: asyncio.Task[Any], exists: bool) -> None:
    """Wait until it has polled for a while, with the partitions of its topic."""
    await until(lambda: not exists or bool(consumer.assignment))
    await asyncio.sleep(2.2)
    assert not polling.done()


async def all_of(consumer: ShareConsumer) -> list[Any]:
    return [record async for record in consumer]


async def all_batches_of(consumer: ShareConsumer) -> list[Any]:
    return [batch async for batch in consumer.batches()]


async def one_poll_of(consumer: ShareConsumer) -> list[Any]:
    return await consumer.poll(3_600_000)


async def work_on(consumer: ShareConsumer) -> list[Any]:
    await consumer.run(nothing, signals=())
    return []


@pytest.mark.parametrize("exists", [True, False], ids=["a topic", "no topic"])
@pytest.mark.parametrize("read", [all_of, all_batches_of, one_poll_of, work_on])
def test_what_waits_ends_when_the_consumer_is_closed(read: Any, exists: bool) -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, "auto.create.topics.enable=false")
        bootstrap = f"127.0.0.1:{port}"
        if exists:
            async with Admin(bootstrap) as admin:
                await admin.create_topics("idle")
        async with asyncio.timeout(120):
            async with ShareConsumer("idle", group_id="g", bootstrap_servers=bootstrap) as consumer:
                reading = asyncio.create_task(read(consumer))
                await waits(consumer, reading, exists)
            assert await reading == []
            await broker.close()

    simulate(scenario)


@pytest.mark.parametrize("polls", [True, False], ids=["beside a poll", "after a wakeup"])
def test_a_fetch_that_waits_takes_no_records_after_an_unsubscribe(polls: bool) -> None:
    """Nobody would answer for them until their locks end."""

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, "log.retention.ms=-1")  # the record is of 1970
        topic_id = await new_topic(broker, port, partitions=1)
        bootstrap = f"127.0.0.1:{port}"
        async with ShareConsumer(
            TOPIC, group_id=GROUP, bootstrap_servers=bootstrap, fetch_max_wait_ms=600_000
        ) as consumer:
            polling = asyncio.create_task(consumer.poll(3_600_000))
            await waits(consumer, polling, True)
            if not polls:
                consumer.wakeup()
                await asyncio.wait([polling])
                assert isinstance(polling.exception(), Wakeup)
            await consumer.unsubscribe()
            await produce(port, topic_id, 0, 1)
            async with (
                asyncio.timeout(10),
                ShareConsumer(TOPIC, group_id=GROUP, bootstrap_servers=bootstrap) as other,
            ):
                [record] = await poll_until(other, 1)
                assert (record.offset, record.delivery_count) == (0, 1)
                await other.poll(10)  # accepts it
            consumer.subscribe(TOPIC)
            await produce(port, topic_id, 0, 1)
            again = await (polling if polls else poll_until(consumer, 1))
            assert [one.offset for one in again] == [1], "it goes on with another connection"
        await broker.close()

    simulate(scenario)


def test_an_unsubscribe_takes_no_locks_of_a_consumer_that_shares_the_connections() -> None:
    """A session ends with its connection."""

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk, "log.retention.ms=-1")  # the record is of 1970
        topic_id = await new_topic(broker, port, partitions=1)
        await produce(port, topic_id, 0, 1)
        async with (
            Cluster(f"127.0.0.1:{port}") as cluster,
            ShareConsumer(
                TOPIC, group_id=GROUP, cluster=cluster, auto_offset_reset="earliest"
            ) as holder,
            ShareConsumer(
                TOPIC, group_id=GROUP, cluster=cluster, fetch_max_wait_ms=10_000
            ) as waiter,
        ):
            await poll_until(holder, 1)
            polling = asyncio.create_task(waiter.poll(3_600_000))
            await waits(waiter, polling, True)
            await waiter.unsubscribe()
            await produce(port, topic_id, 0, 1)
            assert [*(await holder.commit()).values()] == [None]
            [record] = await poll_until(holder, 1)
            assert record.delivery_count == 1
            polling.cancel()
        await broker.close()

    simulate(scenario)


def test_a_poll_is_not_cancelled_by_an_unsubscribe() -> None:
    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await start(disk)
        bootstrap = f"127.0.0.1:{port}"
        async with Admin(bootstrap) as admin:
            await admin.create_topics("idle")
        async with ShareConsumer(
            "idle", group_id="g", bootstrap_servers=bootstrap, fetch_max_wait_ms=5_000
        ) as consumer:
            polling = asyncio.create_task(consumer.poll(20_000))
            await waits(consumer, polling, True)
            await consumer.unsubscribe()
            assert await polling == []
        await broker.close()

    simulate(scenario)
