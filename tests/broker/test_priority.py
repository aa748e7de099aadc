"""Higher priorities go first (``share.priority.header``), a header names tenants, and tenants have
rates: by our client, with a broker whose clock the tests move."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer, Record, ShareConsumer
from sharegroup.model.errors import InvalidConfig
from sharegroup.model.limits import (
    HEADER_NAME_BYTES_MAX,
    RATE_INTERVAL_MS_MAX,
    RATE_RECORDS_MAX,
)
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.metrics.test_endpoint import scraped, value
from tests.broker.running import run
from tests.broker.test_back_off import GROUP, TOPIC, polled, run_with

PRIORITY = {"share.priority.header": "urgency"}
BY_HEADER = {"share.fairness": "header", "share.fairness.header": "customer"}
ONE_AN_HOUR = {
    "share.fairness.rate.max.records": "1",
    "share.fairness.rate.interval.ms": "3600000",
}


async def prepare(bootstrap: str, partitions: int = 1, **group: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(TOPIC, partitions=partitions)
        settings = {"share.auto.offset.reset": "earliest", **group}
        await admin.alter_configs("group", GROUP, settings)


async def produce(bootstrap: str, header: str, *values: str, partition: int = 0) -> None:
    """A record for each value, whose header says the same; ``-``: it has no header."""
    async with Producer(bootstrap) as producer:
        for each in values:
            headers = [] if each == "-" else [(header, each.encode())]
            await producer.send(TOPIC, each, headers=headers, partition=partition)


def consumer_of(bootstrap: str, most: int = 1) -> ShareConsumer:
    return ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=bootstrap,
        acknowledgement_mode="explicit",
        fetch_max_wait_ms=50,
        max_poll_records=most,
        acquire_mode="record_limit",
    )


async def settle(consumer: ShareConsumer, *records: Record) -> None:
    consumer.accept(*records)
    assert set((await consumer.commit()).values()) == {None}


async def values(consumer: ShareConsumer, count: int) -> list[str]:
    """The values of the next ``count`` records, one after the other."""
    found = []
    while len(found) < count:
        for record in await polled(consumer, 1):
            found.append((record.value or b"").decode())
            await settle(consumer, record)
    return found


def test_higher_priorities_go_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a header, or with one that says none, a record is in the middle."""

    async def scenario(broker: Broker, port: int) -> None:
        bootstrap = f"127.0.0.1:{port}"
        await prepare(bootstrap, **PRIORITY)
        await produce(bootstrap, "urgency", "0", "3", "-", "soon", "5", "9", "12", "9")
        async with consumer_of(bootstrap) as consumer:
            got = await values(consumer, 8)
        assert got == ["9", "12", "9", "5", "-", "soon", "3", "0"]
        samples = await scraped(MetricsReader(broker.parts))
        name = "sharegroup_priority_headers_unreadable_total"
        assert value(samples, name, {"group": GROUP}) == 1

    run(tmp_path, scenario)
    assert "have a header urgency that says no priority, and have 4" in caplog.text


def test_an_urgent_record_far_behind_is_next() -> None:
    """Far behind what a fetch reads."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **PRIORITY)
        async with Producer(kafka.bootstrap) as producer:
            for _ in range(400):
                await producer.enqueue(TOPIC, bytes(20_000), headers=[("urgency", b"1")])
            await producer.flush()
        async with consumer_of(kafka.bootstrap) as consumer:
            (first,) = await polled(consumer, 1)
            await settle(consumer, first)
            await produce(kafka.bootstrap, "urgency", "8")
            found = []
            while b"8" not in found:
                (record,) = await polled(consumer, 1)
                await settle(consumer, record)
                found.append(record.value)
            assert len(found) < 50

    run_with(broker(), scenario)


def test_the_first_record_of_all_is_the_urgent_one_far_behind() -> None:
    """Also after a restart: what lies within 8 MiB is known before anything is delivered."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **PRIORITY)
        async with Producer(kafka.bootstrap) as producer:
            for _ in range(200):
                await producer.enqueue(TOPIC, bytes(20_000))
            await producer.flush()
        await produce(kafka.bootstrap, "urgency", "9", "5")
        async with consumer_of(kafka.bootstrap) as consumer:
            assert await values(consumer, 1) == ["9"]
        kafka.restart()
        async with consumer_of(kafka.bootstrap) as consumer:
            assert await values(consumer, 1) == ["5"]

    run_with(broker(), scenario)


def test_the_oldest_gets_its_share() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **PRIORITY, **{"share.priority.overtakes.max": "2"})
        await produce(kafka.bootstrap, "urgency", *"00", *"777777")
        async with consumer_of(kafka.bootstrap) as consumer:
            assert "".join(await values(consumer, 8)) == "77077077"

    run_with(broker(), scenario)


def test_a_header_names_the_tenant() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_HEADER, **{"share.fairness.key.separator": "/"})
        await produce(kafka.bootstrap, "customer", *["acme/1", "acme/2"] * 4, "zoo/1", "-", "-")
        async with consumer_of(kafka.bootstrap) as consumer:
            got = await values(consumer, 11)
        assert {one.partition("/")[0] for one in got[:3]} == {"acme", "zoo", "-"}
        assert [one for one in got[:5] if one == "-"] == ["-", "-"], "they are one tenant"

    run_with(broker(), scenario)


def test_one_record_of_each_tenant_an_hour_over_all_partitions() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, partitions=2, **BY_HEADER, **ONE_AN_HOUR)
        await produce(kafka.bootstrap, "customer", *"aab", partition=0)
        await produce(kafka.bootstrap, "customer", *"ac", partition=1)
        async with consumer_of(kafka.bootstrap, 500) as consumer:
            assert sorted(await values(consumer, 3)) == list("abc")
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(3_540)
            assert not await consumer.poll(timeout_ms=200)
            waiting = asyncio.ensure_future(values(consumer, 1))
            kafka.advance(120)
            assert await waiting == ["a"]
            assert not await consumer.poll(timeout_ms=200)
            async with Admin(kafka.bootstrap) as admin:
                free = {"share.fairness.rate.max.records": "0"}
                await admin.alter_configs("group", GROUP, free)
            assert await values(consumer, 1) == ["a"]

    run_with(broker(), scenario)


def test_a_change_takes_back_what_is_in_flight() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap)
        async with Producer(kafka.bootstrap) as producer:
            for low, high in (("1", "9"), ("2", "0")):
                headers = [("urgency", low.encode()), ("other", high.encode())]
                await producer.send(TOPIC, low, headers=headers)
        async with consumer_of(kafka.bootstrap) as one, Admin(kafka.bootstrap) as admin:
            for settings, first in (
                ({}, b"1"),
                (PRIORITY, b"2"),
                ({"share.priority.header": "other"}, b"1"),
                ({"share.priority.header": ""}, b"1"),
            ):
                if settings:
                    await admin.alter_configs("group", GROUP, settings)
                async with consumer_of(kafka.bootstrap) as other:
                    (record,) = await polled(other, 1)
                    assert record.value == first
                    other.release(record)
                    await other.commit()
            assert len(await polled(one, 1)) == 1

    run_with(broker(), scenario)


LONGEST = "ü" * (HEADER_NAME_BYTES_MAX // 2)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({**PRIORITY, "share.ordering": "key"}, "share.priority.header gives up the order"),
        ({**PRIORITY, "share.fairness": "key"}, "both say who is next"),
        ({**BY_HEADER, "share.ordering": "key"}, "share.fairness=header gives up the order"),
        ({"share.fairness": "header"}, "needs share.fairness.header"),
        ({"share.priority.header": LONGEST + "ab"}, "at most 255 bytes"),
        ({"share.fairness.header": LONGEST + "ab"}, "at most 255 bytes"),
        ({"share.priority.overtakes.max": "-1"}, "at least 0"),
        ({"share.priority.overtakes.max": "1000001"}, "no more than 1000000"),
        ({"share.fairness.rate.max.records": str(RATE_RECORDS_MAX + 1)}, "no more than"),
        ({"share.fairness.rate.interval.ms": str(RATE_INTERVAL_MS_MAX + 1)}, "no more than"),
        ({"share.fairness.rate.interval.ms": "0"}, "at least 1"),
    ],
)
def test_values_that_are_refused(wrong: dict[str, str], words: str) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        most = {
            "share.priority.header": LONGEST + "a",
            "share.priority.overtakes.max": "1000000",
            "share.fairness.rate.max.records": str(RATE_RECORDS_MAX),
            "share.fairness.rate.interval.ms": str(RATE_INTERVAL_MS_MAX),
        }
        async with Admin(kafka.bootstrap) as admin:
            await admin.alter_configs("group", "other", most)
            with pytest.raises(InvalidConfig, match=words):
                await admin.alter_configs("group", GROUP, wrong)

    run_with(broker(), scenario)
