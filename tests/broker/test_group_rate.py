"""The rate of a group (``share.rate.…``): over all its members and partitions, by the broker's
clock, which the tests move."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client import Admin, Producer, Record, ShareConsumer
from sharegroup.model.errors import InvalidConfig
from sharegroup.model.limits import RATE_INTERVAL_MS_MAX, RATE_RECORDS_MAX
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.test_back_off import GROUP, TOPIC, consumer_of, polled, prepared, run_with

HOUR_MS = 3_600_000
ONE_AN_HOUR = {"share.rate.max.records": 1, "share.rate.interval.ms": HOUR_MS}


async def settle(consumer: ShareConsumer, *records: Record) -> None:
    consumer.accept(*records)
    assert set((await consumer.commit()).values()) == {None}


async def of_another_member(kafka: LocalBroker) -> list[Record]:
    async with consumer_of(kafka) as other:
        return list(await other.poll(timeout_ms=200))


@pytest.mark.parametrize("order", [{}, {"share.ordering": "key"}, {"share.fairness": "key"}])
def test_one_record_an_hour_also_of_a_batch(order: dict[str, str]) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=3, **ONE_AN_HOUR, **order) as consumer:
            for value in (b"0", b"1", b"2"):
                (record,) = await polled(consumer, 1)
                assert record.value == value
                await settle(consumer, record)
                assert not await consumer.poll(timeout_ms=200)
                kafka.advance(3_540)
                assert not await consumer.poll(timeout_ms=200)
                kafka.advance(120)

    run_with(broker(), scenario)


def test_members_and_partitions_share_it() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        kafka.create_topic(TOPIC, partitions=2)
        async with Admin(kafka.bootstrap) as admin:
            settings = {"share.auto.offset.reset": "earliest", **ONE_AN_HOUR}
            await admin.alter_configs("group", GROUP, {k: str(v) for k, v in settings.items()})
        async with Producer(kafka.bootstrap) as producer:
            for number in range(6):
                await producer.send(TOPIC, str(number), partition=number % 2)
        async with consumer_of(kafka) as one, consumer_of(kafka) as other:
            for _ in range(3):
                found: list[Record] = []
                while not found:
                    for consumer in (one, other):
                        if records := await consumer.poll(timeout_ms=100):
                            found += records
                            await settle(consumer, *records)
                assert len(found) == 1
                assert not await one.poll(timeout_ms=100)
                assert not await other.poll(timeout_ms=100)
                kafka.advance(3_660)

    run_with(broker(), scenario)


def test_a_fetch_that_waits_goes_on_when_it_may() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=2, **ONE_AN_HOUR) as consumer:
            (first,) = await polled(consumer, 1)
            await settle(consumer, first)
            waiting = asyncio.ensure_future(polled(consumer, 1))
            assert not await of_another_member(kafka)
            assert not waiting.done()
            kafka.advance(3_660)
            (second,) = await waiting
            await settle(consumer, second)

    run_with(broker(), scenario)


def test_another_limit_holds_at_once() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        async with prepared(kafka, records=9, **ONE_AN_HOUR) as consumer:
            await settle(consumer, *await polled(consumer, 1))
            assert not await consumer.poll(timeout_ms=200)
            async with Admin(kafka.bootstrap) as admin:
                await admin.alter_configs("group", GROUP, {"share.rate.max.records": "0"})
                await settle(consumer, *await polled(consumer, 8))

    run_with(broker(), scenario)


@pytest.mark.parametrize(
    "wrong",
    [
        {"share.rate.max.records": "-1"},
        {"share.rate.max.records": str(RATE_RECORDS_MAX + 1)},
        {"share.rate.interval.ms": "0"},
        {"share.rate.interval.ms": str(RATE_INTERVAL_MS_MAX + 1)},
    ],
)
def test_values_that_are_refused(wrong: dict[str, str]) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        most = {
            "share.rate.max.records": str(RATE_RECORDS_MAX),
            "share.rate.interval.ms": str(RATE_INTERVAL_MS_MAX),
        }
        async with Admin(kafka.bootstrap) as admin:
            await admin.alter_configs("group", GROUP, most)
            with pytest.raises(InvalidConfig):
                await admin.alter_configs("group", GROUP, wrong)

    run_with(broker(), scenario)
