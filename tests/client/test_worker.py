"""``ShareConsumer.run``: its slots, and what becomes of records that fail."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Backoff, Producer, Record, Reject, ShareConsumer
from sharegroup.client.worker.dead_letters import (
    HEADER_PREFIX,
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_SHORT,
)
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.running import run as run_with_broker
from tests.client.worker_jobs import jobs, member, until, work, worker_metrics
from tests.client.working import fresh, poll_until, run

AT_ONCE = Backoff(first_s=0.0)
ORIGIN = {"topic", "partition", "offset"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    """One broker for the whole file."""
    with broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


# --- slots ----------------------------------------------------------------------------------------


def test_one_consumer_fills_all_slots(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 100)

    async def scenario() -> None:
        together = asyncio.Barrier(20)  # nobody goes on before twenty are there

        async def handler(record: Record) -> None:
            await together.wait()

        consumer = member(kafka, topic, group)
        seen = await work(consumer, handler, lambda m: m["handled-total"] == 100, concurrency=20)
        assert (seen["failed-total"], seen["lost-locks-total"]) == (0, 0)

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 100


def test_a_slow_record_does_not_delay_others(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 200)

    async def scenario() -> None:
        others_done = asyncio.Event()
        done: list[bytes] = []

        async def handler(record: Record) -> None:
            if record.value == b"0":
                await others_done.wait()
            done.append(record.value)
            if len(done) == 199:
                others_done.set()

        await work(
            member(kafka, topic, group), handler, lambda m: m["handled-total"] == 200, concurrency=2
        )
        assert done[-1] == b"0"

    run(scenario)


def test_it_holds_at_most_slots_and_prefetch(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 100)

    async def scenario() -> None:
        let_go = asyncio.Event()

        async def handler(record: Record) -> None:
            await let_go.wait()

        consumer = member(kafka, topic, group)
        working = asyncio.create_task(consumer.run(handler, concurrency=3, prefetch=2))
        async with member(kafka, topic, group) as other:
            await until(lambda: worker_metrics(consumer).get("waiting") == 2)
            seen = worker_metrics(consumer)
            assert (seen["in-flight"], seen["idle-slots"]) == (3, 0)
            assert len(await poll_until(other, 95)) == 95
            await other.commit()
        consumer.stop()
        await until(lambda: worker_metrics(consumer)["waiting"] == 0)
        let_go.set()
        await working
        seen = worker_metrics(consumer)
        assert (seen["handled-total"], seen["released-total"]) == (3, 2)

    run(scenario)


# --- failures -------------------------------------------------------------------------------------


def test_a_failed_record_is_retried_and_then_a_dead_letter(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 3)
    dead = fresh("dead")
    kafka.create_topic(dead)
    old = [("trace", b"7"), ("__dlq.errors.topic", b"old")]
    tries = Counter[bytes]()

    async def handler(record: Record) -> None:
        tries[record.value] += 1
        if record.value == b"1" and record.delivery_count < 3:
            raise ValueError("not yet")
        if record.key == b"key":
            raise ValueError("never " + "ü" * 2_000)

    async def scenario() -> None:
        async with Producer(kafka.bootstrap) as producer:
            await producer.send(topic, b"bad\xff", key=b"key", headers=old)
        seen = await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["handled-total"] == 3 and m["dead-lettered-total"] == 1,
            retry=AT_ONCE,
            dead_letter=dead,
        )
        assert (seen["failed-total"], seen["retried-total"]) == (6, 5)
        [letter] = await letters(kafka, dead)
        assert (letter.key, letter.value) == (b"key", b"bad\xff")
        headers = dict(letter.headers)
        assert len(headers) == len(letter.headers)
        assert headers.pop("__dlq.errors.message").decode().startswith("never üü")
        assert len(dict(letter.headers)["__dlq.errors.message"]) <= MESSAGE_BYTES_MAX
        assert int(headers.pop("__dlq.errors.timestamp")) > 0
        assert headers == {
            "trace": b"7",
            "__dlq.errors.topic": topic.encode(),
            "__dlq.errors.partition": b"0",
            "__dlq.errors.offset": b"3",
            "__dlq.errors.group": group.encode(),
            "__dlq.errors.delivery.count": b"4",
            "__dlq.errors.exception": b"ValueError",
        }

    run(scenario)
    assert tries == {b"0": 1, b"1": 3, b"2": 1, b"bad\xff": 4}
    assert kafka.group(group)[topic, 0].start_offset == 4
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len([one for one in warnings if one.exc_info]) == 6
    assert f"{topic}-0@3 failed, delivery 4 of 4: it is sent to {dead}" in caplog.text


async def letters(kafka: LocalBroker, topic: str) -> list[Record]:
    """All that is in the dead-letter topic, by order of offset."""
    count = len(kafka.values(topic))
    async with member(kafka, topic, fresh("reader"), auto_offset_reset="earliest") as reader:
        return await poll_until(reader, count)


@pytest.mark.parametrize("how", ["reject", "fatal", "unreadable"])
def test_a_rejected_record_is_not_retried(kafka: LocalBroker, how: str) -> None:
    topic, group = jobs(kafka, 0)
    dead = fresh("dead")
    kafka.produce(topic, ["{", "1"])
    settings = {"value_deserializer": json.loads} if how == "unreadable" else {}
    fatal = {"reject": (), "fatal": (KeyError,), "unreadable": ()}[how]
    retry = Backoff(attempts=1) if how == "unreadable" else AT_ONCE

    async def handler(record: Record) -> None:
        if record.value == b"{":
            raise Reject("no") if how == "reject" else KeyError("no")

    async def scenario() -> None:
        await work(
            member(kafka, topic, group, **settings),
            handler,
            lambda m: m["handled-total"] + m["dead-lettered-total"] == 2,
            retry=retry,
            dead_letter=dead,
            create_dead_letter=True,
            fatal=fatal,
        )
        [letter] = await letters(kafka, dead)
        assert letter.value == b"{"
        assert dict(letter.headers)["__dlq.errors.delivery.count"] == b"1"

    run(scenario)


def test_without_a_dead_letter_topic_it_is_rejected_and_logged(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 1)

    async def handler(record: Record) -> None:
        raise ValueError("no")

    async def scenario() -> None:
        consumer = member(kafka, topic, group)
        seen = await work(
            consumer, handler, lambda m: m["rejected-total"] == 1, retry=Backoff(0, attempts=2)
        )
        assert (seen["failed-total"], seen["retried-total"]) == (2, 1)

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 1
    assert f"{topic}-0@0 failed, delivery 2 of 2: it is rejected" in caplog.text


def test_the_last_delivery_is_reserved_for_the_dead_letter(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 2, share_delivery_count_limit=2)
    dead = fresh("dead")

    async def scenario() -> None:
        async with member(kafka, topic, group, acknowledgement_mode="explicit") as dying:
            first, second = await poll_until(dying, 2)
            dying.release(first)
            dying.accept(second)
        handled: list[bytes] = []

        async def handler(record: Record) -> None:
            handled.append(record.value)

        await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["dead-lettered-total"] == 1,
            retry=Backoff(attempts=9),
            dead_letter=dead,
            create_dead_letter=True,
        )
        [letter] = await letters(kafka, dead)
        assert (handled, letter.value) == ([], b"0")
        assert dict(letter.headers)["__dlq.errors.exception"] == b"DeliveriesUsedUp"

    run(scenario)
    assert "attempts is 9, but the group" in caplog.text


def test_records_are_rejected_only_after_their_dead_letter(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 2)
    dead = fresh("dead")
    kafka.create_topic(dead, max_message_bytes=50)  # not even a record without headers fits into it

    async def handler(record: Record) -> None:
        raise Reject("no")

    async def scenario() -> None:
        async def repair(consumer: ShareConsumer) -> None:
            # More than two records have deliveries: they are kept by now.
            await until(lambda: worker_metrics(consumer).get("dead-letters-failed-total", 0) > 12)
            assert worker_metrics(consumer)["dead-lettered-total"] == 0
            async with Admin(kafka.bootstrap) as admin:
                await admin.alter_configs("topic", dead, {"max.message.bytes": None})

        consumer = member(kafka, topic, group)
        repairing = asyncio.create_task(repair(consumer))
        await work(
            consumer,
            handler,
            lambda m: m["dead-lettered-total"] == 2,
            retry=AT_ONCE,
            dead_letter=dead,
        )
        await repairing

    run(scenario)
    assert sorted(kafka.values(dead)) == [b"0", b"1"]
    assert kafka.group(group)[topic, 0].start_offset == 2
    assert caplog.text.count("dead letters cannot be produced") == 1


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (700, {*ORIGIN, "timestamp", "group", "delivery.count", "exception", "message"}),
        (330, {*ORIGIN, "timestamp", "group", "delivery.count", "exception"}),
        (250, ORIGIN),
        (100, set()),
    ],
)
def test_a_dead_letter_gives_up_headers_to_fit(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture, limit: int, kept: set[str]
) -> None:
    topic, group = jobs(kafka, 2)
    dead = fresh("dead")
    kafka.create_topic(dead, max_message_bytes=limit)

    async def handler(record: Record) -> None:
        raise Reject("x" * 1_000)

    async def scenario() -> None:
        seen = await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["dead-lettered-total"] == 2,
            retry=AT_ONCE,
            dead_letter=dead,
        )
        assert seen["dead-letters-failed-total"] == 0
        for letter in await letters(kafka, dead):
            headers = dict(letter.headers)
            assert headers.keys() == {HEADER_PREFIX + name for name in kept}
            assert len(headers.get(HEADER_PREFIX + "message", b"")) in (0, MESSAGE_BYTES_SHORT)

    run(scenario)
    assert sorted(kafka.values(dead)) == [b"0", b"1"]
    said = [
        r for r in caplog.records if r.getMessage().startswith(f"the dead letter of {topic}-0@")
    ]
    assert [r.levelno for r in said if r.levelno >= logging.WARNING] == [logging.WARNING]


def test_a_dead_letter_that_fits_in_no_form_is_refused_once(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        at = f"127.0.0.1:{port}"
        async with Admin(at) as admin, Producer(at) as producer:
            await admin.create_topics("jobs", "dead")
            await admin.alter_configs("topic", "dead", {"max.message.bytes": "900"})
            await admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
            await producer.send("jobs", b"x" * 900)

        async def handler(record: Record) -> None:
            raise Reject("no")

        seen = await work(
            ShareConsumer("jobs", group_id="g", bootstrap_servers=at),
            handler,
            lambda m: m["dead-letters-failed-total"] >= 2,
            retry=AT_ONCE,
            dead_letter="dead",
        )
        refused = broker.parts.counters.statistics()["produce_errors", "MESSAGE_TOO_LARGE"]
        assert refused == seen["dead-letters-failed-total"]

    run_with_broker(tmp_path, scenario)


def test_a_deleted_dead_letter_topic_loses_no_record(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 1)
    dead = fresh("dead")
    kafka.create_topic(dead)

    async def handler(record: Record) -> None:
        async with Admin(kafka.bootstrap) as admin:
            if record.delivery_count == 1:
                await admin.delete_topics(dead)
            else:
                await admin.create_topics(dead)
        raise Reject("no")

    async def scenario() -> None:
        seen = await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["dead-lettered-total"] == 1,
            retry=AT_ONCE,
            dead_letter=dead,
        )
        assert (seen["failed-total"], seen["dead-letters-failed-total"]) == (2, 1)

    run(scenario)
    assert kafka.values(dead) == [b"0"]
    assert caplog.text.count("dead letters cannot be produced") == 1
