"""Back-off by the broker: a record that comes back rests, for stock clients too, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from sharegroup.client import Admin, Producer, Record, ShareConsumer
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker

TOPIC, GROUP = "jobs", "workers"
HOUR_S = 3_600


@asynccontextmanager
async def prepared(
    kafka: LocalBroker, records: int = 3, **group: object
) -> AsyncIterator[ShareConsumer]:
    settings = {"share.auto.offset.reset": "earliest", **group}
    async with Admin(kafka.bootstrap) as admin:
        await admin.create_topics(TOPIC)
        await admin.alter_configs("group", GROUP, {k: str(v) for k, v in settings.items()})
    async with Producer(kafka.bootstrap) as producer:
        for number in range(records):
            await producer.enqueue(TOPIC, str(number))
    async with consumer_of(kafka) as consumer:
        yield consumer


def consumer_of(kafka: LocalBroker) -> ShareConsumer:
    return ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=kafka.bootstrap,
        acknowledgement_mode="explicit",
        fetch_max_wait_ms=50,
    )


async def polled(consumer: ShareConsumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


def run_with(kafka: LocalBroker, scenario: Callable[[LocalBroker], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await scenario(kafka)

    with kafka:
        asyncio.run(limited())


def test_a_released_record_rests_and_others_go_on() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        back_off = {"share.release.backoff.ms": HOUR_S * 1000, "share.release.backoff.jitter": 0}
        back_off |= {"share.release.backoff.max.ms": 2 * HOUR_S * 1000}
        async with prepared(kafka, **back_off) as consumer:
            first, second, third = await polled(consumer, 3)
            consumer.release(first)
            consumer.accept(second, third)
            await consumer.commit()
            async with Producer(kafka.bootstrap) as producer:
                await producer.send(TOPIC, "later")
            (later,) = await polled(consumer, 1)
            assert later.value == b"later"
            consumer.accept(later)
            await consumer.commit()
            assert kafka.group(GROUP)[TOPIC, 0].start_offset == 0
            kafka.advance(HOUR_S - 60)
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(120)
            (again,) = await polled(consumer, 1)
            assert (again.value, again.delivery_count) == (b"0", 2)
            consumer.release(again)
            await consumer.commit()
            kafka.advance(HOUR_S + 60)
            assert not await consumer.poll(timeout_ms=200), "the second rest is twice as long"
            kafka.advance(HOUR_S)
            (again,) = await polled(consumer, 1)
            assert again.delivery_count == 3
            consumer.accept(again)

    run_with(broker(), scenario)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_rest_goes_on_after_a_restart(how: str) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka) as consumer:
            records = await polled(consumer, 3)
            for number, record in enumerate(records):
                consumer.release(record, delay_ms=number * HOUR_S * 1000)
            await consumer.commit()
        kafka.kill() if how == "kill" else kafka.stop()
        kafka.start()
        async with consumer_of(kafka) as consumer:
            (again,) = await polled(consumer, 1)
            assert again.value == b"0"
            consumer.accept(again)
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(HOUR_S + 60)
            (again,) = await polled(consumer, 1)
            assert (again.value, again.delivery_count) == (b"1", 2)
            consumer.accept(again)
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(HOUR_S)
            (again,) = await polled(consumer, 1)
            assert again.value == b"2"
            consumer.accept(again)

    run_with(broker(), scenario)


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_rest_ends_after_a_restart_also_if_nothing_else_is_delivered(ordering: str) -> None:
    """A delivery sets the timer too, so this needs a group in which every record rests."""

    async def scenario(kafka: LocalBroker) -> None:
        settings = {} if ordering == "none" else {"share.ordering": ordering}
        async with prepared(kafka, records=1, **settings) as consumer:
            (record,) = await polled(consumer, 1)
            consumer.release(record, delay_ms=HOUR_S * 1000)
            await consumer.commit()
        kafka.kill()
        kafka.start()
        async with consumer_of(kafka) as consumer:
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(HOUR_S + 60)
            (again,) = await polled(consumer, 1)
            assert again.delivery_count == 2

    run_with(broker(), scenario)


def test_records_that_rest_do_not_fill_the_window() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        back_off = {"share.release.backoff.ms": HOUR_S * 1000}
        locks = {"share.partition.max.record.locks": 100}
        async with prepared(kafka, records=1_000, **back_off, **locks) as consumer:
            released = 0
            while released < 900:
                records = await consumer.poll()
                consumer.release(*records)
                released += len(records)
                await consumer.commit()
            (record, *rest) = await consumer.poll() if released < 1_000 else [None]
            if record is not None:
                consumer.accept(record, *rest)
                await consumer.commit()
            assert kafka.group(GROUP)[TOPIC, 0].start_offset == 0

    run_with(broker(), scenario)


def test_a_delay_that_is_none() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=1) as consumer:
            (record,) = await polled(consumer, 1)
            for wrong in (-1, 7 * 24 * HOUR_S * 1000 + 1):
                with pytest.raises(ValueError, match=f"delay_ms is {wrong}: 0 to 604800000"):
                    consumer.release(record, delay_ms=wrong)
            consumer.accept(record)

    run_with(broker(), scenario)
