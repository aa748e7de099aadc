"""Expiry: what is worthless is delivered to nobody, becomes a dead letter or is dropped, and is
counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sharegroup.broker.delivery import record_looks
from sharegroup.broker.delivery.record_looks import bounds_before
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer, Record, ShareConsumer
from sharegroup.model.ids import TopicPartition
from sharegroup.model.record_headers import EXPIRES_AT
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.metrics.test_endpoint import scraped, value
from tests.broker.running import run
from tests.broker.test_dead_letters import letters, said, stored

TOPIC, GROUP, LETTERS = "jobs", "workers", "dlq.jobs"
HOUR_S = 3_600
BY_AGE = {"share.record.expiry.ms": HOUR_S * 1000}
BY_HEADER = {"share.record.expiry.header.enable": "true"}
LETTER = {
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.copy.record.enable": "true",
}
Scenario = Callable[[LocalBroker], Awaitable[None]]


def run_with(kafka: LocalBroker, scenario: Scenario) -> None:
    async def limited() -> None:
        async with asyncio.timeout(100):
            await scenario(kafka)

    with kafka:
        asyncio.run(limited())


async def prepare(bootstrap: str, **group: object) -> None:
    settings = {"share.auto.offset.reset": "earliest", **group}
    async with Admin(bootstrap) as admin:
        await admin.create_topics(TOPIC, configs={"retention.ms": "-1"})
        await admin.create_topics(LETTERS, configs={"errors.deadletterqueue.group.enable": "true"})
        await admin.alter_configs("group", GROUP, {k: str(v) for k, v in settings.items()})


@asynccontextmanager
async def consumer_of(bootstrap: str, **more: object) -> AsyncIterator[ShareConsumer]:
    async with ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=bootstrap,
        acknowledgement_mode="explicit",
        fetch_max_wait_ms=50,
        **more,  # type: ignore[arg-type]
    ) as consumer:
        yield consumer


async def polled(consumer: ShareConsumer, count: int) -> list[Record]:
    """So many records; of several polls, the earlier ones are accepted."""
    found: list[Record] = []
    while True:
        records = await consumer.poll()
        found += records
        if len(found) >= count:
            return found
        consumer.accept(*records)


async def archived(bootstrap: str) -> list[tuple[int, int, str | None]]:
    async with Admin(bootstrap) as admin:
        told = (await admin.describe_record_states(GROUP))[TopicPartition(TOPIC, 0)]
    return [(one.first, one.last, one.reason) for one in told.given_up]


async def produce(
    bootstrap: str, values: list[str], *, expires_at: datetime | int | None = None
) -> None:
    async with Producer(bootstrap) as producer:
        for one in values:
            await producer.enqueue(TOPIC, one, key="a", expires_at=expires_at)


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_an_old_record_goes_to_nobody(ordering: str) -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_AGE, **{"share.ordering": ordering})
        await produce(kafka.bootstrap, ["0", "1", "2"])
        kafka.advance(2 * HOUR_S)
        async with Producer(kafka.bootstrap) as producer:
            await producer.send(TOPIC, "3", timestamp_ms=kafka.now_ms)
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert (record.value, record.delivery_count) == (b"3", 1)
            assert await archived(kafka.bootstrap) == [(0, 2, "expired")]
            consumer.accept(record)
            await consumer.commit()
        assert kafka.group(GROUP)[TOPIC, 0].start_offset == 4

    run_with(broker(), scenario)


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_single_records_expire_by_their_header(compression: str, ordering: str) -> None:
    """In one batch with others, which are delivered, and only once."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_HEADER, **{"share.ordering": ordering})
        now = datetime.now(UTC)
        async with Producer(kafka.bootstrap, compression=compression, linger_ms=50) as producer:
            for number in range(40):
                late = now + timedelta(hours=1 if number % 3 else -1)
                await producer.enqueue(TOPIC, str(number), key=str(number), expires_at=late)
        async with consumer_of(kafka.bootstrap) as consumer:
            records = await polled(consumer, 26)
            assert sorted(int(one.value or b"") for one in records) == [
                number for number in range(40) if number % 3
            ]
            assert {one.delivery_count for one in records} == {1}
            consumer.accept(*records)
            await consumer.commit()
            assert not await consumer.poll(timeout_ms=200)
        assert kafka.group(GROUP)[TOPIC, 0].start_offset == 40

    run_with(broker(), scenario)


def test_a_group_that_does_not_ask_for_headers_gets_all() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap)
        await produce(kafka.bootstrap, ["0"], expires_at=1)
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert record.headers == [(EXPIRES_AT, b"1")]
            consumer.accept(record)

    run_with(broker(), scenario)


@pytest.mark.parametrize("action", ["deadletter", "drop"])
def test_it_becomes_a_dead_letter_unless_it_is_dropped(action: str, tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        bootstrap = f"127.0.0.1:{port}"
        await prepare(bootstrap, **BY_HEADER, **LETTER, **{"share.record.expiry.action": action})
        await produce(bootstrap, ["0", "1"], expires_at=1_000)
        await produce(bootstrap, ["2"])
        async with consumer_of(bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            consumer.reject(record)
            await consumer.commit()
        wanted = ["2"] if action == "drop" else ["0", "1", "2"]
        await letters(broker, len(wanted))
        found = await stored(broker)
        assert [(one.content.value or b"").decode() for one in found] == wanted
        if action == "deadletter":
            first = said(found[0])
            assert (first["cause"], first["message"], first["offset"]) == (
                "expired",
                "Offset expired.",
                "0",
            )
            assert first["expires.at"] == "1000"
            assert "member" not in first
            assert EXPIRES_AT not in first, "the letter does not expire"
        samples = await scraped(MetricsReader(broker.parts))
        labels = {"group": GROUP, "topic": TOPIC, "reason": "expired"}
        assert value(samples, "sharegroup_archived_records_total", labels) == 2

    run(tmp_path, scenario)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_it_stays_expired_over_a_restart(how: str) -> None:
    """What was archived does not come back when the setting is cleared."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_AGE)
        await produce(kafka.bootstrap, ["0", "1"])
        async with consumer_of(kafka.bootstrap) as consumer:
            first, second = await polled(consumer, 2)
            consumer.release(first, delay_ms=7 * 24 * HOUR_S * 1000)  # it rests for a week
            consumer.release(second, delay_ms=0)
            await consumer.commit()
            kafka.advance(2 * HOUR_S)
            async with Producer(kafka.bootstrap) as producer:
                await producer.send(TOPIC, "2", timestamp_ms=kafka.now_ms)
            (third,) = await polled(consumer, 1)
            assert third.value == b"2"
            consumer.release(third)
        kafka.kill() if how == "kill" else kafka.stop()
        kafka.start()
        async with Admin(kafka.bootstrap) as admin:
            await admin.alter_configs("group", GROUP, {"share.record.expiry.ms": None})
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert record.value == b"2"
            consumer.accept(record)

    run_with(broker(), scenario)


def test_what_a_member_holds_is_its_own() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_AGE)
        await produce(kafka.bootstrap, ["0"])
        kafka.advance(HOUR_S - 10)
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            kafka.advance(20)
            consumer.accept(record)
            assert set((await consumer.commit()).values()) == {None}
        view = kafka.group(GROUP)[TOPIC, 0]
        assert (view.start_offset, view.archived) == (1, 0)

    run_with(broker(), scenario)


def test_decisions_by_hand_and_a_pause(tmp_path: Path) -> None:
    """A paused group expires nothing, what is extended neither; what is released by hand does, and
    a purge passes it by."""
    at = TopicPartition(TOPIC, 0)

    async def scenario(_broker: Broker, port: int) -> None:
        bootstrap = f"127.0.0.1:{port}"
        await prepare(bootstrap)
        async with Admin(bootstrap) as admin, consumer_of(bootstrap) as consumer:
            await produce(bootstrap, ["0", "1"], expires_at=1_000)
            await polled(consumer, 2)
            await admin.alter_configs("group", GROUP, {"share.paused": "true", **BY_HEADER})
            assert (await admin.extend_records(GROUP, at, 0, extend_ms=HOUR_S * 1000)).held == 1
            assert (await admin.release_records(GROUP, at, 1)).held == 1
            async with consumer_of(bootstrap) as other:
                assert not await other.poll(timeout_ms=200)
                told = (await admin.describe_record_states(GROUP))[at].ranges
                assert [one.reason for one in told] == [None, None], "nothing expires"
                await admin.alter_configs("group", GROUP, {"share.paused": "false"})
                await produce(bootstrap, ["2"])
                (record,) = await polled(other, 1)
                assert record.value == b"2"
            told = (await admin.describe_record_states(GROUP))[at].ranges
            assert [one.reason for one in told] == [None, "expired", None]
            await admin.archive_records(GROUP, at, 0, 2)
            assert await archived(bootstrap) == [
                (0, 0, "rejected"),
                (1, 1, "expired"),
                (2, 2, "rejected"),
            ]

    run(tmp_path, scenario)


def test_a_header_that_says_no_time_is_counted_and_expires_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        bootstrap = f"127.0.0.1:{port}"
        await prepare(bootstrap, **BY_HEADER)
        async with Producer(bootstrap) as producer:
            await producer.send(TOPIC, "0", headers=[(EXPIRES_AT, b"tomorrow")])
        async with consumer_of(bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            consumer.accept(record)
            await consumer.commit()
        samples = await scraped(MetricsReader(broker.parts))
        name = "sharegroup_expiry_headers_unreadable_total"
        assert value(samples, name, {"group": GROUP}) == 1

    run(tmp_path, scenario)
    assert "have a header sharegroup.expires.at that is no time" in caplog.text


def test_very_many_expired_records_do_not_stop_at_the_limit_of_locks() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_HEADER, **{"share.partition.max.record.locks": 100})
        async with Producer(kafka.bootstrap) as producer:
            for number in range(5_000):
                gone = number % 50 or None
                await producer.enqueue(TOPIC, str(number), expires_at=gone)
        async with consumer_of(kafka.bootstrap) as consumer:
            seen: list[int] = []
            while len(seen) < 100:
                records = await consumer.poll()
                seen += [int(one.value or b"") for one in records]
                consumer.accept(*records)
                await consumer.commit()
            assert seen == [*range(0, 5_000, 50)]
        assert kafka.group(GROUP)[TOPIC, 0].lag <= 49

    run_with(broker(), scenario)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_rest_of_a_batch_that_fills_the_window_expires_as_well(compression: str) -> None:
    """A batch is given whole, also over the limit of locks: what has expired in it is left out."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_HEADER, **{"share.partition.max.record.locks": 100})
        async with Producer(kafka.bootstrap, compression=compression, linger_ms=50) as producer:
            for number in range(400):
                gone = None if number % 7 else 1
                await producer.enqueue(TOPIC, str(number), expires_at=gone)
        async with consumer_of(kafka.bootstrap) as consumer:
            seen: list[int] = []
            while len(seen) < 342:
                records = await consumer.poll()
                seen += [int(one.value or b"") for one in records]
                consumer.accept(*records)
                await consumer.commit()
            assert seen == [number for number in range(400) if number % 7]
            assert not await consumer.poll(timeout_ms=200)
        assert kafka.group(GROUP)[TOPIC, 0].start_offset == 400

    run_with(broker(), scenario)


def test_what_may_be_acquired_ends_before_what_is_left() -> None:
    bounds = [(0, 4), (5, 9), (12, 14)]
    assert [list(bounds_before(bounds, end)) for end in (0, 1, 5, 8, 11, 13, 15)] == [
        [],
        [(0, 0)],
        [(0, 4)],
        [(0, 4), (5, 7)],
        [(0, 4), (5, 9)],
        [(0, 4), (5, 9), (12, 12)],
        bounds,
    ]


def test_large_batches_are_unpacked_in_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_looks, "UNPACKED_ON_LOOP_BYTES_MAX", 100)

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka.bootstrap, **BY_HEADER)
        async with Producer(kafka.bootstrap, compression="gzip", linger_ms=50) as producer:
            for number in range(10):
                await producer.enqueue(TOPIC, "x" * 100, expires_at=1 if number < 9 else None)
        async with consumer_of(kafka.bootstrap) as consumer:
            (record,) = await polled(consumer, 1)
            assert record.offset == 9
            consumer.accept(record)

    run_with(broker(), scenario)


def test_the_settings_are_checked(tmp_path: Path) -> None:
    async def scenario(_broker: Broker, port: int) -> None:
        async with Admin(f"127.0.0.1:{port}") as admin:
            for name, text in (
                ("share.record.expiry.ms", "-1"),
                ("share.record.expiry.ms", str(10 * 365 * 24 * 3_600_000 + 1)),
                ("share.record.expiry.action", "keep"),
            ):
                with pytest.raises(Exception, match=name):
                    await admin.alter_configs("group", GROUP, {name: text})
            limit = {"share.record.expiry.ms": str(10 * 365 * 24 * 3_600_000)}
            await admin.alter_configs("group", GROUP, limit)

    run(tmp_path, scenario)
