"""Scheduled delivery: what is not due waits, holds back nobody, and comes at its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.delivery import record_looks
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer
from sharegroup.model.ids import TopicPartition
from sharegroup.model.record_headers import DELIVER_AT, EXPIRES_AT
from sharegroup.share.order import log_order
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.metrics.test_endpoint import scraped, value
from tests.broker.running import run
from tests.broker.test_dead_letters import letters
from tests.broker.test_expiry import (
    GROUP,
    LETTER,
    TOPIC,
    archived,
    consumer_of,
    polled,
    prepare,
    run_with,
)

SCHEDULED = {"share.record.schedule.header.enable": "true"}
AT = TopicPartition(TOPIC, 0)
FAR_MS = 24 * 3_600_000


async def produce(
    kafka: LocalBroker, *values: str, in_ms: int | None = None, key: str | None = None
) -> None:
    deliver_at = None if in_ms is None else kafka.now_ms + in_ms
    async with Producer(kafka.bootstrap) as producer:
        for one in values:
            await producer.enqueue(TOPIC, one, key=key or one, deliver_at=deliver_at)


async def states(bootstrap: str) -> list[tuple[int, int, str, int]]:
    async with Admin(bootstrap) as admin:
        told = (await admin.describe_record_states(GROUP))[AT].ranges
    return [(one.first, one.last, str(one.state), one.delivery_count) for one in told]


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_record_waits_for_its_time(ordering: str) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **SCHEDULED, **{"share.ordering": ordering})
        await produce(kafka, "later", in_ms=10_000)
        await produce(kafka, "now")
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert record.value == b"now"
            consumer.accept(record)
            await consumer.commit()
            kafka.advance(9)
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(1.1)
            (record,) = await polled(consumer, 1)
            assert (record.value, record.delivery_count) == (b"later", 1)
            consumer.accept(record)
            await consumer.commit()
        assert kafka.group(GROUP)[TOPIC, 0].start_offset == 2

    run_with(broker(), scenario)


def test_the_later_records_of_its_key_wait_for_it() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **SCHEDULED, **{"share.ordering": "key"})
        await produce(kafka, "0", in_ms=10_000, key="a")
        await produce(kafka, "1", key="a")
        await produce(kafka, "2", key="b")
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert record.value == b"2"
            consumer.accept(record)
            await consumer.commit()
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(10.1)
            assert [one.value for one in await polled(consumer, 2)] == [b"0", b"1"]

    run_with(broker(), scenario)


def test_a_group_that_does_not_ask_for_it_gets_all() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap)
        await produce(kafka, "0", in_ms=FAR_MS)
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert [name for name, _ in record.headers] == [DELIVER_AT]

    run_with(broker(), scenario)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_very_many_that_rest_hold_back_nobody(
    compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many more than the limit of locks, in front of others and among them."""
    monkeypatch.setattr(record_looks, "UNPACKED_ON_LOOP_BYTES_MAX", 100_000)

    async def scenario(kafka: LocalBroker) -> None:
        limit = {"share.partition.max.record.locks": 100}
        await prepare(kafka.bootstrap, **SCHEDULED, **limit)
        async with Producer(kafka.bootstrap, compression=compression) as producer:
            for number in range(5_000):
                due = kafka.now_ms + FAR_MS + number
                rests = number < 3_000 or number % 3
                await producer.enqueue(TOPIC, str(number), deliver_at=due if rests else None)
        async with consumer_of(kafka.bootstrap) as consumer:
            seen: list[int] = []
            while len(seen) < 667:
                records = await consumer.poll()
                seen += [int(one.value or b"") for one in records]
                consumer.accept(*records)
                await consumer.commit()
            assert seen == [number for number in range(3_000, 5_000) if not number % 3]
            assert not await consumer.poll(timeout_ms=200)
        resting = [one for one in await states(kafka.bootstrap) if one[3] == 0]
        assert sum(last - first + 1 for first, last, *_ in resting) >= 4_333
        kafka.advance(FAR_MS / 1000 + 10)
        async with consumer_of(kafka.bootstrap) as consumer:
            left = await polled(consumer, 4_333)
            assert len({one.offset for one in left}) == 4_333
            assert {one.delivery_count for one in left} == {1}

    run_with(broker(), scenario)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_it_keeps_its_time_over_a_restart(how: str) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **SCHEDULED)
        await produce(kafka, "0", in_ms=60_000)
        await produce(kafka, "1")
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            consumer.accept(record)
            await consumer.commit()
        kafka.kill() if how == "kill" else kafka.stop()
        kafka.start()
        async with consumer_of(kafka.bootstrap) as consumer:
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(30)
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(30.1)
            (record,) = await polled(consumer, 1)
            assert (record.value, record.delivery_count) == (b"0", 1)

    run_with(broker(), scenario)


@pytest.mark.parametrize("looked_at", [True, False])
def test_an_operator_lets_it_go_now(looked_at: bool) -> None:
    """Also one that no fetch has seen yet; it stays so over kill -9."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **SCHEDULED)
        await produce(kafka, "0", "1", in_ms=FAR_MS)
        async with consumer_of(kafka.bootstrap) as consumer, Admin(kafka.bootstrap) as admin:
            if looked_at:
                assert not await consumer.poll(timeout_ms=200)
            assert (await admin.release_records(GROUP, AT, 1)).records == 1
            (record,) = await polled(consumer, 1)
            assert record.value == b"1"
        kafka.kill()
        kafka.start()
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert record.value == b"1"
            consumer.accept(record)
            await consumer.commit()
            assert not await consumer.poll(timeout_ms=200)

    run_with(broker(), scenario)


def test_without_the_setting_it_is_due_at_once() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **SCHEDULED)
        await produce(kafka, "0", in_ms=FAR_MS)
        async with consumer_of(kafka.bootstrap) as consumer, Admin(kafka.bootstrap) as admin:
            assert not await consumer.poll(timeout_ms=200)
            await admin.alter_configs("group", GROUP, dict.fromkeys(SCHEDULED, "false"))
            (record,) = await polled(consumer, 1)
            assert record.delivery_count == 1

    run_with(broker(), scenario)


def test_a_paused_group_gets_what_was_due_meanwhile() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **SCHEDULED)
        await produce(kafka, "0", in_ms=5_000)
        async with consumer_of(kafka.bootstrap) as consumer, Admin(kafka.bootstrap) as admin:
            assert not await consumer.poll(timeout_ms=200)
            await admin.pause_group(GROUP)
            kafka.advance(6)
            assert not await consumer.poll(timeout_ms=200)
            await admin.resume_group(GROUP)
            assert len(await polled(consumer, 1)) == 1

    run_with(broker(), scenario)


def test_what_is_worthless_when_it_is_due_goes_to_nobody() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        both = {**SCHEDULED, "share.record.expiry.header.enable": "true"}
        await prepare(kafka.bootstrap, **both)
        async with Producer(kafka.bootstrap) as producer:
            times = {DELIVER_AT: kafka.now_ms + 8_000, EXPIRES_AT: kafka.now_ms + 4_000}
            headers = [(name, str(ms).encode()) for name, ms in times.items()]
            await producer.send(TOPIC, "0", headers=headers)
        async with consumer_of(kafka.bootstrap) as consumer:
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(9)
            await produce(kafka, "1")
            (record,) = await polled(consumer, 1)
            assert record.value == b"1"
            assert await archived(kafka.bootstrap) == [(0, 0, "expired")]

    run_with(broker(), scenario)


def test_a_dead_letter_does_not_wait_as_its_record_did(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        bootstrap = f"127.0.0.1:{port}"
        await prepare(bootstrap, **SCHEDULED, **LETTER)
        async with Producer(bootstrap) as producer:
            await producer.send(TOPIC, "0", deliver_at=1_000)
        async with consumer_of(bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            consumer.reject(record)
            await consumer.commit()
        (letter,) = await letters(broker, 1)
        assert letter["deliver.at"] == "1000"
        assert DELIVER_AT not in letter

    run(tmp_path, scenario)


@pytest.mark.parametrize("time", [b"tomorrow", b"1700000000000000"])
def test_a_header_that_says_no_time_is_counted_and_delays_nothing(
    time: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As that of a producer that counts microseconds."""

    async def scenario(broker: Broker, port: int) -> None:
        bootstrap = f"127.0.0.1:{port}"
        await prepare(bootstrap, **SCHEDULED)
        async with Producer(bootstrap) as producer:
            await producer.send(TOPIC, "0", headers=[(DELIVER_AT, time)])
        async with consumer_of(bootstrap) as consumer:
            assert len(await polled(consumer, 1)) == 1
        samples = await scraped(MetricsReader(broker.parts))
        name = "sharegroup_schedule_headers_unreadable_total"
        assert value(samples, name, {"group": GROUP}) == 1

    run(tmp_path, scenario)
    assert "have a header sharegroup.deliver.at that is no time" in caplog.text


def test_too_many_that_rest_are_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_order, "SCHEDULED_MAX", 50)

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **SCHEDULED)
        await produce(kafka, *map(str, range(60)), in_ms=5_000)
        await produce(kafka, "now")
        async with consumer_of(kafka.bootstrap) as consumer:
            assert not await consumer.poll(timeout_ms=200)
            kafka.advance(6)
            assert len(await polled(consumer, 61)) == 61

    run_with(broker(), scenario)
    assert "delivers no new records until some of those that rest are due" in caplog.text
