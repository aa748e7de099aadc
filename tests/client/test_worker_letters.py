"""A worker in a group whose dead letters the broker writes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator

import pytest

from sharegroup.client import Admin, Backoff, Consumer, Record, Reject
from sharegroup.client.worker import dead_letters
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.worker_jobs import jobs, member, nothing, work
from tests.client.working import WAIT_S, fresh, run

AT_ONCE = Backoff(first_s=0.0)
TOPIC_NAME = "errors.deadletterqueue.topic.name"


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    with broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


async def with_letters(kafka: LocalBroker, group: str) -> str:
    """A dead-letter topic, with copies, for the group."""
    topic = fresh("dlq.dead")
    async with Admin(kafka.bootstrap) as admin:
        await admin.create_topics(topic, configs={"errors.deadletterqueue.group.enable": "true"})
        copies = {"errors.deadletterqueue.copy.record.enable": "true"}
        await admin.alter_configs("group", group, {TOPIC_NAME: topic, **copies})
    return topic


async def letters(kafka: LocalBroker, topic: str, count: int) -> list[tuple[bytes, dict[str, str]]]:
    """The values and added headers of the first letters."""
    found: list[Record] = []
    async with Consumer(
        bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        async with asyncio.timeout(WAIT_S):
            while len(found) < count:
                found += await consumer.poll()
    return [
        (
            one.value,
            {
                name.removeprefix("__dlq.errors."): (value or b"").decode()
                for name, value in one.headers
            },
        )
        for one in found
    ]


def test_the_letter_has_the_exception(kafka: LocalBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = jobs(kafka, 3)

    async def handler(record: Record) -> None:
        if record.value == b"0":
            raise Reject("no such customer")
        if record.value == b"1":
            raise KeyError("address")

    async def scenario() -> None:
        dead = await with_letters(kafka, group)
        await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["rejected-total"] == 2 and m["handled-total"] == 1,
            retry=AT_ONCE,
            concurrency=1,
            dead_letter=dead,
        )
        found = sorted(await letters(kafka, dead, 2))
        assert [(value, said["message"], said["cause"]) for value, said in found] == [
            (b"0", "Reject: no such customer", "rejected"),
            (b"1", "KeyError: 'address'", "rejected"),
        ]
        assert [said["delivery.count"] for _, said in found] == ["1", "5"], "none is reserved"
        assert f"it is rejected, and the broker sends it to {dead}" in caplog.text

    run(scenario)


def test_the_traceback_if_it_is_asked_for(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def handler(record: Record) -> None:
        raise Reject("no")

    async def scenario() -> None:
        dead = await with_letters(kafka, group)
        await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["rejected-total"] == 1,
            dead_letter_traceback=True,
        )
        ((_, said),) = await letters(kafka, dead, 1)
        assert said["message"].startswith("Traceback (most recent call last):")
        assert said["message"].endswith("Reject: no")
        assert 'raise Reject("no")' in said["message"]

    run(scenario)


def test_a_topic_that_the_group_gets_meanwhile_has_the_only_letters(
    kafka: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LOOK_S", 0.0)
    topic, group = jobs(kafka, 2)
    own = fresh("own")

    async def scenario() -> None:
        named = ""

        async def handler(record: Record) -> None:
            nonlocal named
            if record.value == b"1":
                named = await with_letters(kafka, group)
            raise Reject(f"no {record.offset}")

        await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["dead-lettered-total"] == m["rejected-total"] == 1,
            concurrency=1,
            dead_letter=own,
            create_dead_letter=True,
        )
        ((value, said),) = await letters(kafka, named, 1)
        assert (value, said["message"]) == (b"1", "Reject: no 1")
        async with Admin(kafka.bootstrap) as admin:
            [end] = (await admin.list_offsets([TopicPartition(own, 0)])).values()
        assert end.offset == 1, "the worker has written one itself, before"

    run(scenario)


def test_a_reason_is_told_although_the_group_had_no_topic_at_first(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def scenario() -> None:
        named = ""

        async def handler(record: Record) -> None:
            nonlocal named
            named = await with_letters(kafka, group)
            raise Reject("no such customer")

        await work(member(kafka, topic, group), handler, lambda m: m["rejected-total"] == 1)
        ((_, said),) = await letters(kafka, named, 1)
        assert said["message"] == "Reject: no such customer"

    run(scenario)


def test_text_that_utf_8_cannot_hold_is_escaped(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "sharegroup.worker")  # xdist sends no such text of a log
    topic, group = jobs(kafka, 2)
    name = os.fsdecode(b"invoice-\xff.pdf")  # as os.listdir gives it

    async def handler(record: Record) -> None:
        if record.value == b"0":
            raise Reject(f"cannot read {name}")

    async def scenario() -> None:
        dead = await with_letters(kafka, group)
        seen = await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["rejected-total"] == m["handled-total"] == 1,
        )
        assert seen["lost-locks-total"] == 0
        ((_, said),) = await letters(kafka, dead, 1)
        assert said["message"] == "Reject: cannot read invoice-\\udcff.pdf"

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 2


class Mute(Exception):
    def __str__(self) -> str:
        raise AttributeError("row")


class Odd(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize("whose", ["broker's", "worker's"])
@pytest.mark.parametrize("kind", [Mute, Odd])
def test_an_exception_that_cannot_tell_its_text(
    kafka: LocalBroker, kind: type[Exception], whose: str
) -> None:
    topic, group = jobs(kafka, 2)

    async def handler(record: Record) -> None:
        if record.value == b"0":
            raise kind

    async def scenario() -> None:
        own = {} if whose == "broker's" else {"dead_letter": fresh("own")}
        dead = own.get("dead_letter") or await with_letters(kafka, group)
        await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["rejected-total"] + m["dead-lettered-total"] == m["handled-total"] == 1,
            fatal=[kind],
            create_dead_letter=bool(own),
            **own,
        )
        ((_, said),) = await letters(kafka, dead, 1)
        text = f"<a {kind.__name__} that has no text>"
        assert said["message"] == (text if own else f"{kind.__name__}: {text}")

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 2


def test_another_topic_is_refused(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def scenario() -> None:
        dead = await with_letters(kafka, group)
        consumer = member(kafka, topic, group)
        with pytest.raises(ConfigError, match=f"writes the dead letters of {group} to '{dead}'"):
            await consumer.run(nothing, dead_letter="dlq.others")

    run(scenario)
