"""Our own share consumers in a group with order per key."""

from __future__ import annotations

import asyncio
import json
import random
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from sharegroup import sync
from sharegroup.client import (
    AckType,
    Admin,
    Producer,
    Record,
    RecordDeserializationError,
    ShareConsumer,
)
from tests.client.working import WAIT_S, fresh, run
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

COUNT, KEYS = 3_000, 50


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Apache Kafka has no order in share groups."""
    folder: Path = tmp_path_factory.mktemp("broker")
    with SharegroupServer(folder) as server:
        yield server


def zipf(draws: random.Random) -> list[str]:
    """Keys by Zipf's law with exponent 1."""
    limits = list(accumulate(1 / rank for rank in range(1, KEYS + 1)))
    return [str(bisect_left(limits, draws.random() * limits[-1])) for _ in range(COUNT)]


class Witness:
    """Notes when each record was last accepted: that accept is the one that counted."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.accepts: list[int] = []
        self.members: set[str] = set()

    def accepted(self, member: str, record: Record) -> None:
        self.members.add(member)
        self.accepts.append(int(record.value or b""))

    def check(self) -> None:
        last = {number: at for at, number in enumerate(self.accepts)}
        assert sorted(last) == list(range(COUNT)), "a record is lost"
        for key in set(self.keys):
            mine = [last[number] for number in range(COUNT) if self.keys[number] == key]
            assert mine == sorted(mine), f"key {key} is out of order"


async def lag(admin: Admin, group: str) -> int:
    offsets = await admin.list_share_group_offsets(group)
    return sum(COUNT if one.lag is None else one.lag for one in offsets.values())


async def work(
    consumer: ShareConsumer, name: str, witness: Witness, finished: Callable[[], Awaitable[bool]]
) -> None:
    """Accept all, but release one in thirty when it comes first, and what comes behind it of its
    key. Records that the broker has taken back may still come out of the consumer's buffer:
    accepting them has no effect."""
    async with asyncio.timeout(WAIT_S):
        while True:
            records = list(await consumer.poll(100))
            if not records and await finished():
                return
            released: set[bytes | None] = set()
            for record in records:
                first = record.delivery_count == 1
                if record.key in released or (first and record.offset % 30 == 7):
                    released.add(record.key)
                    consumer.acknowledge(record, AckType.RELEASE)
                else:
                    consumer.acknowledge(record, AckType.ACCEPT)
                    witness.accepted(name, record)
            await consumer.commit()


@pytest.mark.process
def test_keys_drawn_by_zipf_come_in_order(ours: RunningServer) -> None:
    async def scenario() -> None:
        draws = random.Random(7)
        topic, group = fresh("keys"), fresh("group")
        keys = zipf(draws)
        async with Admin(ours.bootstrap) as admin:
            await admin.create_topics(topic)
            await admin.alter_configs(
                "group",
                group,
                {
                    "share.auto.offset.reset": "earliest",
                    "share.ordering": "key",
                    "share.delivery.count.limit": "10",
                },
            )
        witness = Witness(keys)
        async with (
            Admin(ours.bootstrap) as admin,
            consumer_of(ours, topic, group) as one,
            consumer_of(ours, topic, group) as two,
        ):
            await asyncio.gather(one.poll(1_000), two.poll(1_000))  # both have joined
            async with Producer(ours.bootstrap) as producer:
                for number, key in enumerate(keys):
                    await producer.enqueue(topic, str(number), key=key)

            async def finished() -> bool:
                return await lag(admin, group) == 0

            await asyncio.gather(
                work(one, "one", witness, finished), work(two, "two", witness, finished)
            )
        witness.check()
        assert witness.members == {"one", "two"}

    run(scenario)


def consumer_of(broker: RunningServer, topic: str, group: str) -> ShareConsumer:
    return ShareConsumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        max_poll_records=100,
        acquire_mode="record_limit",  # else the first may take all that there is
        acknowledgement_mode="explicit",
    )


PER_KEY = 6
"""Records of each key in the tests of loops."""


class Job:
    """Handles records. The record ``a1`` fails when it comes first."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.errors: list[object] = []

    def fails(self, record: Record[Any, str]) -> bool:
        value = record.value or ""
        self.done.append((value, record.delivery_count))
        return value == "a1" and record.delivery_count == 1

    def confirmed(self, _offsets: object, error: object) -> None:
        if error is not None:
            self.errors.append(error)

    @property
    def finished(self) -> bool:
        return len(self.done) == 3 * PER_KEY + 1

    def check(self) -> None:
        of_key = {key: [one for one in self.done if one[0].startswith(key)] for key in "abc"}
        assert of_key["a"] == [
            ("a0", 1), ("a1", 1), ("a1", 2), ("a2", 1), ("a3", 1), ("a4", 1), ("a5", 1),
        ]  # fmt: skip
        assert of_key["b"] == [(f"b{number}", 1) for number in range(PER_KEY)]
        assert of_key["c"] == [(f"c{number}", 1) for number in range(PER_KEY)]
        assert not self.errors


async def three_keys(broker: RunningServer, *, batches: bool) -> tuple[str, str]:
    """A topic with a0 b0 c0 a1 b1 …, in one batch or each record in its own, and its group."""
    topic, group = fresh("loop"), fresh("group")
    settings = {"share.auto.offset.reset": "earliest", "share.ordering": "key"}
    async with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        await admin.create_topics(topic)
        await admin.alter_configs("group", group, settings)
        sent = []
        for number in range(PER_KEY):
            for key in "abc":
                one = producer.send(topic, f"{key}{number}", key=f'["{key}"]')
                if batches:
                    await one
                else:
                    sent.append(one)
        await asyncio.gather(*sent)
    return topic, group


def options(broker: RunningServer, group: str, job: Job) -> dict[str, Any]:
    return {
        "group_id": group,
        "bootstrap_servers": broker.bootstrap,
        "key_deserializer": json.loads,  # lists: a key need not be hashable
        "value_deserializer": bytes.decode,
        "acknowledgement_commit_callback": job.confirmed,
    }


PACES = {
    "one batch": (False, 500, False),
    "fetched ahead": (True, 2, False),  # the second fetch is under way when the record is released
    "committed at once": (False, 500, True),
    "fetched ahead, committed at once": (True, 2, True),
}


@pytest.mark.process
@pytest.mark.parametrize("pace", PACES)
def test_a_loop_does_not_give_what_was_taken_back(ours: RunningServer, pace: str) -> None:
    async def scenario() -> None:
        batches, most, commits = PACES[pace]
        job = Job()
        topic, group = await three_keys(ours, batches=batches)
        async with ShareConsumer(
            topic,
            acknowledgement_mode="explicit",
            max_poll_records=most,
            **options(ours, group, job),
        ) as consumer:
            async for record in consumer:
                if job.fails(record):
                    consumer.release(record)
                else:
                    consumer.accept(record)
                if commits:
                    await consumer.commit()
                if job.finished:
                    break
            await consumer.commit()
        job.check()
        async with Admin(ours.bootstrap) as admin:
            assert await lag(admin, group) == 0

    run(scenario)


@pytest.mark.process
@pytest.mark.parametrize("pace", PACES)
def test_a_blocking_loop_does_not_give_it_either(ours: RunningServer, pace: str) -> None:
    batches, most, commits = PACES[pace]
    job = Job()
    topic, group = asyncio.run(three_keys(ours, batches=batches))
    with sync.ShareConsumer(
        topic, acknowledgement_mode="explicit", max_poll_records=most, **options(ours, group, job)
    ) as consumer:
        for record in consumer:
            kind = AckType.RELEASE if job.fails(record) else AckType.ACCEPT
            consumer.acknowledge(record, kind)
            if commits:
                consumer.commit()
            if job.finished:
                break
        consumer.commit()
    job.check()


@pytest.mark.process
@pytest.mark.parametrize("pace", ["one batch", "fetched ahead"])
def test_an_implicit_loop_that_is_begun_anew(ours: RunningServer, pace: str) -> None:
    """The loop ends by an exception, which releases the record in work."""

    async def scenario() -> None:
        batches, most, _ = PACES[pace]
        job = Job()
        topic, group = await three_keys(ours, batches=batches)
        async with ShareConsumer(
            topic, max_poll_records=most, **options(ours, group, job)
        ) as consumer:
            while not job.finished:
                try:
                    async for record in consumer:
                        if job.fails(record):
                            raise RuntimeError("a1")
                        if job.finished:
                            await consumer.commit()
                            break
                except RuntimeError:
                    continue
        job.check()
        async with Admin(ours.bootstrap) as admin:
            assert await lag(admin, group) == 0

    run(scenario)


@pytest.mark.process
@pytest.mark.parametrize("pace", ["one batch", "fetched ahead"])
def test_polls_do_not_give_it_from_their_buffer(ours: RunningServer, pace: str) -> None:
    """What a list holds is the application's: it releases the later ones of the key as well."""

    async def scenario() -> None:
        batches, most, _ = PACES[pace]
        job = Job()
        topic, group = await three_keys(ours, batches=batches)
        async with ShareConsumer(
            topic,
            acknowledgement_mode="explicit",
            max_poll_records=most,
            **options(ours, group, job),
        ) as consumer:
            while not job.finished:
                released = []
                for record in await consumer.poll():
                    if record.key in released or job.fails(record):
                        released.append(record.key)
                        consumer.release(record)
                    else:
                        consumer.accept(record)
            await consumer.commit()
        job.check()

    run(scenario)


@pytest.mark.process
def test_a_record_that_cannot_be_deserialized_holds_up_its_key(ours: RunningServer) -> None:
    async def scenario() -> None:
        seen: list[str] = []
        refused: list[int] = []

        def value_of(raw: bytes) -> str:
            value = raw.decode()
            if value == "a1" and not refused:
                raise ValueError(value)
            return value

        topic, group = await three_keys(ours, batches=False)
        async with ShareConsumer(
            topic,
            group_id=group,
            bootstrap_servers=ours.bootstrap,
            value_deserializer=value_of,
        ) as consumer:
            while len(seen) < 3 * PER_KEY:
                try:
                    seen += [record.value or "" for record in await consumer.poll()]
                except RecordDeserializationError as error:
                    refused.append(error.offset)
            await consumer.commit()
        assert refused == [3]
        assert [one for one in seen if one[0] == "a"] == ["a0", "a1", "a2", "a3", "a4", "a5"]
        assert [one for one in seen if one[0] == "b"] == [f"b{number}" for number in range(6)]

    run(scenario)


@pytest.mark.process
def test_a_release_that_is_withdrawn_takes_nothing_back(ours: RunningServer) -> None:
    """The loop has passed over the later ones by then: they were released, and come again."""

    async def scenario() -> None:
        job = Job()
        topic, group = await three_keys(ours, batches=False)
        async with ShareConsumer(
            topic, acknowledgement_mode="explicit", **options(ours, group, job)
        ) as consumer:
            first: Record[Any, str] | None = None
            async for record in consumer:
                if job.fails(record):
                    first = record
                    consumer.release(record)
                else:
                    consumer.accept(record)
                if len(job.done) == 2 * 6 + 2 and first is not None:
                    consumer.accept(first)
                    first = None
                if len(job.done) == 3 * PER_KEY:
                    break
            await consumer.commit()
        of_key = [value for value, _ in job.done if value[0] == "a"]
        assert of_key == ["a0", "a1", "a2", "a3", "a4", "a5"]
        assert not job.errors

    run(scenario)
