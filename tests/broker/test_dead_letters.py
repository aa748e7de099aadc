"""Dead letters by the broker (KIP-1191): each with its cause, none given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.delivery import share_partitions
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer, Record, ShareConsumer
from sharegroup.client.admin.descriptions import RecordRange
from sharegroup.model.errors import KafkaStorageError
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.batch import parse_headers
from sharegroup.wire.record import StoredRecord, read_records
from tests.broker.metrics.test_endpoint import scraped, value
from tests.broker.running import run, running
from tests.broker.share_wire import Session, acquired, connect, started, until

TOPIC, GROUP, LETTERS = "jobs", "workers", "dlq.jobs"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "2",
    "errors.deadletterqueue.topic.name": LETTERS,
}
COPIES = {"errors.deadletterqueue.copy.record.enable": "true"}


@asynccontextmanager
async def prepared(
    port: int, *, records: int, topic: bool = True, partitions: int = 1, **group: str
) -> AsyncIterator[ShareConsumer]:
    """A consumer of a group with dead letters, and records ``0`` … to read."""
    bootstrap = f"127.0.0.1:{port}"
    async with Admin(bootstrap) as admin:
        await admin.create_topics(TOPIC, partitions=partitions)
        await admin.alter_configs("group", GROUP, {**SETTINGS, **group})
        if topic:
            await admin.create_topics(LETTERS, partitions=partitions, configs=ENABLED)
    await produce(port, records)
    async with ShareConsumer(
        TOPIC, group_id=GROUP, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
    ) as consumer:
        yield consumer


async def produce(port: int, records: int, value: bytes = b"value") -> None:
    async with Producer(f"127.0.0.1:{port}") as producer:
        for number in range(records):
            await producer.send(
                TOPIC, value, key=str(number), headers=[("trace", str(number).encode())]
            )


async def stored(broker: Broker, partition: int = 0, topic: str = LETTERS) -> list[StoredRecord]:
    """All records of a log."""
    log = broker.parts.store.log(topic, partition)
    found: list[StoredRecord] = []
    end = (await log.offsets()).high_watermark
    while not found or found[-1].offset + 1 < end:
        if not end:
            return []
        data = bytes((await log.read(found[-1].offset + 1 if found else 0, 1 << 20)).data)
        position = 0
        for header in parse_headers(data):
            batch = data[position : position + header.length]
            found += read_records(header, batch[61:])
            position += header.length
    return found


async def letters(broker: Broker, count: int, partition: int = 0) -> list[dict[str, str]]:
    """The headers of the dead letters, once ``count`` are there; the prefix is left out."""
    while True:
        found = await stored(broker, partition) if topic_exists(broker) else []
        if len(found) >= count:
            return [said(one) for one in found]
        await asyncio.sleep(0.01)


def topic_exists(broker: Broker) -> bool:
    return broker.parts.topics.find(LETTERS) is not None


def said(letter: StoredRecord) -> dict[str, str]:
    return {
        name.decode().removeprefix("__dlq.errors."): (value or b"").decode()
        for name, value in letter.content.headers
    }


async def archiving(port: int) -> list[RecordRange]:
    async with Admin(f"127.0.0.1:{port}") as admin:
        told = (await admin.describe_record_states(GROUP))[TopicPartition(TOPIC, 0)]
    return [one for one in (*told.given_up, *told.ranges) if one.archiving]


async def metric(broker: Broker, which: str) -> float | None:
    samples = await scraped(MetricsReader(broker.parts))
    return value(samples, f"sharegroup_dead_letters_{which}", {"group": GROUP})


async def reject(consumer: ShareConsumer, count: int, reason: str | None = None) -> None:
    rejected = 0
    while rejected < count:
        records = await consumer.poll()
        consumer.reject(*records, reason=reason)
        rejected += len(records)
        assert set((await consumer.commit()).values()) <= {None}


def test_a_letter_says_which_record_and_why(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=3) as consumer:
            for record in await consumer.poll():
                if record.offset == 1:
                    consumer.accept(record)
                else:
                    consumer.reject(record, reason=f"no customer {record.offset}")
            await consumer.commit()
            first, second = await letters(broker, 2)
        assert first.pop("member")
        assert int(first.pop("failed.ms")) > 0
        assert first == {
            "topic": TOPIC,
            "partition": "0",
            "offset": "0",
            "group": GROUP,
            "delivery.count": "1",
            "message": "no customer 0",
            "cause": "rejected",
        }
        assert (second["offset"], second["message"]) == ("2", "no customer 2")
        (one, _) = await stored(broker)
        assert one.content.key is one.content.value is None
        assert await broker.parts.state.keys_with_dead() == []
        assert await archiving(port) == []

    run(tmp_path, scenario)


def test_a_copy_has_key_value_and_headers_of_its_record(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=700, **COPIES) as consumer:
            await reject(consumer, 700)
            await letters(broker, 700)
        found = await stored(broker)
        assert [one.content.key for one in found] == [str(n).encode() for n in range(700)]
        assert {one.content.value for one in found} == {b"value"}
        assert [dict(one.content.headers)[b"trace"] for one in found] == [
            one.content.key for one in found
        ]
        assert said(found[0])["message"] == "Offset rejected by client."

    run(tmp_path, scenario)


def test_records_that_are_released_at_the_limit_say_why(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=1) as consumer:
            for reason in ("the service is away", "still away"):
                (record,) = await polled(consumer, 1)
                consumer.release(record, reason=reason)
                await consumer.commit()
            (found,) = await letters(broker, 1)
        assert (found["cause"], found["message"]) == ("released", "still away")
        assert found["delivery.count"] == "2"

    run(tmp_path, scenario)


def test_records_of_a_member_that_is_lost_at_the_limit_say_so(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        session = await started(broker, port, records=1, **SETTINGS)
        async with Admin(f"127.0.0.1:{port}") as admin:
            await admin.create_topics(LETTERS, configs=ENABLED)
        for delivery in (1, 2):
            assert acquired(await session.fetch(0)) == {0: [(0, 0, delivery)]}
            session.connection.close()
            session = Session(await connect(port), session.topic_id, member=f"m{delivery}")
            await until(lambda: held(broker) == 0)
        (found,) = await letters(broker, 1)
        assert (found["cause"], found["member"]) == ("session-ended", "m1")
        assert found["message"] == "Offset delivery count exceeded the threshold."

    run(tmp_path, scenario)


def held(broker: Broker) -> int:
    return sum(one.core.statistics().acquired for one in broker.parts.share_partitions.all())


async def polled(consumer: ShareConsumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


def test_a_missing_topic_delays_letters_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=3, topic=False) as consumer:
            await reject(consumer, 3, reason="bad")
            (one,) = await archiving(port)
            assert (one.first, one.last, one.reason, one.delivery_count) == (0, 2, "bad", 1)
            assert await metric(broker, "waiting") == 3
            await produce(port, 3)
            await reject(consumer, 3, reason="worse")
            await until(lambda: "cannot be written" in caplog.text)
            async with Admin(f"127.0.0.1:{port}") as admin:
                await admin.create_topics(LETTERS, configs=ENABLED)
            found = await letters(broker, 6)
            await until(lambda: not broker.parts.state.dead_counts())
        assert await metric(broker, "total") == 6
        assert await metric(broker, "waiting") is None
        assert [(one["offset"], one["message"]) for one in found] == [
            (str(offset), "bad" if offset < 3 else "worse") for offset in range(6)
        ]
        (line,) = [one for one in caplog.messages if "cannot be written" in one]
        assert f"the dead-letter topic {LETTERS} does not exist: make it" in line

    run(tmp_path, scenario)


def test_letters_are_written_after_a_restart(tmp_path: Path) -> None:
    async def rejected() -> None:
        async with running(tmp_path) as (_, port), prepared(port, records=3, topic=False) as one:
            await reject(one, 3, reason="bad")

    async def written() -> None:
        async with running(tmp_path) as (broker, port):
            assert [one.reason for one in await archiving(port)] == ["bad"]
            async with Admin(f"127.0.0.1:{port}") as admin:
                await admin.create_topics(LETTERS, configs=ENABLED)
            found = await letters(broker, 3)
            assert [one["message"] for one in found] == ["bad"] * 3

    async def nothing_left() -> None:
        async with running(tmp_path) as (broker, port):
            assert await archiving(port) == []
            assert len(await stored(broker)) == 3

    for each in (rejected, written, nothing_left):
        asyncio.run(each())


def test_a_letter_that_was_written_before_a_kill_comes_twice_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        bury = broker.parts.state.bury
        failures = iter([KafkaStorageError("as if killed here")])

        async def failing(*arguments: Any) -> None:
            if failure := next(failures, None):
                raise failure
            await bury(*arguments)

        monkeypatch.setattr(broker.parts.state, "bury", failing)
        async with prepared(port, records=1) as consumer:
            await reject(consumer, 1)
            first, second = await letters(broker, 2)
        assert first == second

    run(tmp_path, scenario)


def test_a_letter_that_is_too_large_waits_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=2, **COPIES) as consumer:
            await produce(port, 1, value=b"x" * 100_000)
            await produce(port, 2)
            async with Admin(f"127.0.0.1:{port}") as admin:
                await admin.alter_configs("topic", LETTERS, {"max.message.bytes": "10000"})
                await reject(consumer, 5)
                found = await letters(broker, 4)
                assert [one["offset"] for one in found] == ["0", "1", "3", "4"]
                (one,) = await archiving(port)
                assert (one.first, one.last) == (2, 2)
                await admin.alter_configs("topic", LETTERS, {"max.message.bytes": None})
            found = await letters(broker, 5)
            assert found[-1]["offset"] == "2"
        (line,) = [one for one in caplog.messages if "is too large" in one]
        assert "offset 2 of partition 0 of topic jobs" in line
        assert f"raise the max.message.bytes of {LETTERS}" in line

    run(tmp_path, scenario)


def test_a_record_that_fails_again_is_said_to_be_too_large_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        def warnings() -> int:
            return len([one for one in caplog.messages if "is too large" in one])

        bootstrap, where = f"127.0.0.1:{port}", TopicPartition(TOPIC, 0)
        async with prepared(port, records=0, **COPIES) as consumer, Admin(bootstrap) as admin:
            await admin.alter_configs("topic", LETTERS, {"max.message.bytes": "10000"})
            await produce(port, 1, value=b"x" * 100_000)
            await reject(consumer, 1)
            await until(lambda: warnings() == 1)
        async with Admin(bootstrap) as admin:
            assert await admin.alter_share_group_offsets(GROUP, {where: 0}) == {where: None}
            async with ShareConsumer(
                TOPIC, group_id=GROUP, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
            ) as consumer:
                await reject(consumer, 1)
            await until(lambda: warnings() == 2)
            await admin.alter_configs("topic", LETTERS, {"max.message.bytes": None})
        assert [one["offset"] for one in await letters(broker, 2)] == ["0", "0"]
        assert warnings() == 2, "one for each failure, however often the letter is tried"

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("topic", "group", "cure"),
    [
        ({}, {}, "takes no dead letters: set its errors.deadletterqueue.group.enable to true"),
        (
            ENABLED,
            {"errors.deadletterqueue.topic.name": "letters"},
            "does not begin with 'dlq.': name another topic",
        ),
    ],
)
def test_a_topic_that_may_not_have_letters_gets_none(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    topic: dict[str, str],
    group: dict[str, str],
    cure: str,
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=2, topic=False, **group) as consumer:
            async with Admin(f"127.0.0.1:{port}") as admin:
                await admin.create_topics(LETTERS, configs=topic)
            await reject(consumer, 2)
            await until(lambda: cure in caplog.text)
            assert await stored(broker) == []
            assert [(one.first, one.last) for one in await archiving(port)] == [(0, 1)]

    run(tmp_path, scenario)


def test_the_broker_makes_the_topic_if_it_is_told_to(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=2, topic=False) as consumer:
            await reject(consumer, 2)
            await letters(broker, 2)
        configs = broker.parts.configs.of_topic(LETTERS)
        assert configs == {**ENABLED, "message.timestamp.type": "CreateTime"}

    run(tmp_path, scenario, "errors.deadletterqueue.auto.create.topics.enable=true")


def test_each_partition_has_its_letters_in_the_partition_of_its_number(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=40, partitions=2) as consumer:
            await reject(consumer, 40)
            counts = [broker.parts.store.log(TOPIC, at).high_watermark for at in range(2)]
            assert min(counts) > 0
            for at, count in enumerate(counts):
                found = await letters(broker, count, at)
                assert [one["partition"] for one in found] == [str(at)] * count
                assert [int(one["offset"]) for one in found] == list(range(count))

    run(tmp_path, scenario)


def test_a_group_without_a_topic_has_no_letters(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        name = "errors.deadletterqueue.topic.name"
        async with prepared(port, records=2, **{name: ""}) as consumer:
            await reject(consumer, 2)
            assert await broker.parts.state.keys_with_dead() == []
            async with Admin(f"127.0.0.1:{port}") as admin:
                await admin.alter_configs("group", GROUP, {name: LETTERS})
            await produce(port, 2)
            await reject(consumer, 2)
            found = await letters(broker, 2)
            assert [one["offset"] for one in found] == ["2", "3"]

    run(tmp_path, scenario)


def test_level_1_of_share_version_has_no_letters(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=2) as consumer:
            await reject(consumer, 2)
        assert await broker.parts.state.keys_with_dead() == []
        assert await stored(broker) == []

    run(tmp_path, scenario, "share.version=1")


def test_too_many_dead_records_stop_delivery_until_letters_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(share_partitions, "DEAD_WEIGHT_MAX", 300)

    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=2, topic=False) as consumer:
            await reject(consumer, 2, reason="x" * 300)
            await produce(port, 2)
            assert not await consumer.poll(timeout_ms=300)
            async with Admin(f"127.0.0.1:{port}") as admin:
                await admin.create_topics(LETTERS, configs=ENABLED)
            await reject(consumer, 2)
            assert [one["offset"] for one in await letters(broker, 4)] == ["0", "1", "2", "3"]

    run(tmp_path, scenario)
    assert len([one for one in caplog.messages if "too many wait" in one]) == 1
