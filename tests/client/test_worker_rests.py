"""A worker's failed records rest at the broker where it can do that: a worker that dies loses no
pause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from sharegroup.broker import features
from sharegroup.client import Admin, Backoff, Record
from sharegroup.client.worker import slots
from sharegroup.client.worker.retry import LETS_REST
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.worker_jobs import jobs, member, until, work, worker_metrics
from tests.client.working import run

HOUR_S = 3_600
AN_HOUR = Backoff(first_s=HOUR_S, max_s=HOUR_S, jitter=0)


@pytest.fixture
def kafka() -> Iterator[LocalBroker]:
    """Its clock is moved: each test has its own."""
    with broker() as running:
        yield running


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are as Apache Kafka: what is released comes again at once."""
    monkeypatch.delitem(features.FEATURES, LETS_REST)


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_the_pause_outlives_the_worker_and_the_broker(kafka: LocalBroker, ordering: str) -> None:
    topic, group = jobs(kafka, 3, share_ordering=ordering)
    tries = Counter[bytes | None]()

    async def handler(record: Record) -> None:
        tries[record.value] += 1
        if record.value == b"1" and record.delivery_count == 1:
            raise OSError("not now")

    async def first() -> None:
        seen = await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["resting-at-broker"] == m["retried-total"] == 1 and m["handled-total"] == 2,
            retry=AN_HOUR,
        )
        assert (seen["resting"], seen["released-total"]) == (0, 0)
        assert seen["resting-at-broker"] == 0, "the worker has ended"

    async def second() -> None:
        consumer = member(kafka, topic, group)
        working = asyncio.create_task(consumer.run(handler, retry=AN_HOUR))
        async with member(kafka, topic, group) as other:
            assert not await other.poll(500), "it rests"
        kafka.advance(HOUR_S + 1)
        await until(lambda: worker_metrics(consumer).get("handled-total") == 1)
        consumer.stop()
        await working

    run(first)
    kafka.kill()
    kafka.start()
    run(second)
    assert tries == {b"0": 1, b"1": 2, b"2": 1}
    assert kafka.group(group)[topic, 0].start_offset == 3


def test_a_record_that_rests_holds_back_its_key_and_no_other(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 0, share_ordering="key")
    keys = ["ann", "bob", "ann", "ann", "bob"]
    kafka.produce(topic, [(key, str(at)) for at, key in enumerate(keys)])
    done: list[bytes | None] = []

    async def handler(record: Record) -> None:
        if record.offset == 0 and record.delivery_count == 1:
            raise OSError("not now")
        done.append(record.value)

    async def scenario() -> None:
        consumer = member(kafka, topic, group)
        working = asyncio.create_task(consumer.run(handler, retry=AN_HOUR))
        await until(lambda: len(done) == 2)
        await until(lambda: kafka.group(group)[topic, 0].acknowledged == 2)
        assert done == [b"1", b"4"]
        kafka.advance(HOUR_S + 1)
        await until(lambda: len(done) == 5)
        consumer.stop()
        await working

    run(scenario)
    assert done[2:] == [b"0", b"2", b"3"]


def test_a_record_that_never_comes_back_is_expected_until_it_is_due(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def handler(record: Record) -> None:
        raise OSError("not now")

    async def scenario() -> None:
        consumer = member(kafka, topic, group)
        soon = Backoff(first_s=2, jitter=0)
        working = asyncio.create_task(consumer.run(handler, retry=soon))
        await until(lambda: worker_metrics(consumer).get("retried-total") == 1)
        async with Admin(kafka.bootstrap) as admin:
            at = TopicPartition(topic, 0)
            assert (await admin.archive_records(group, at, 0)).records == 1  # it never comes back
        await until(lambda: worker_metrics(consumer)["resting-at-broker"] == 0)
        consumer.stop()
        await working

    run(scenario)


def test_fetching_stops_while_very_many_rest(
    kafka: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "RESTING_MAX", 5)
    topic, group = jobs(kafka, 100)

    async def handler(record: Record) -> None:
        raise OSError("not now")

    async def scenario() -> None:
        seen = await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["retried-total"] >= 5 and m["waiting"] == 0,
            concurrency=1,
            prefetch=0,
            retry=AN_HOUR,
        )
        assert seen["failed-total"] == 5

    run(scenario)


def test_a_broker_without_pauses_leaves_the_record_with_the_worker(
    without_pauses: None, kafka: LocalBroker
) -> None:
    topic, group = jobs(kafka, 1)

    async def handler(record: Record) -> None:
        if record.delivery_count == 1:
            raise OSError("not now")

    async def first() -> None:
        seen = await work(
            member(kafka, topic, group), handler, lambda m: m["resting"] == 1, retry=AN_HOUR
        )
        assert (seen["retried-total"], seen["released-total"]) == (0, 1)

    async def second() -> None:
        await work(member(kafka, topic, group), handler, lambda m: m["handled-total"] == 1)

    run(first)
    run(second)
