"""Scenarios of Apache Kafka's ShareConsumerDLQTest that need a test of their own, and what becomes
of letters that wait when somebody takes their topic or group away.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from tests.broker.running import run
from tests.broker.share_wire import until
from tests.broker.test_dead_letters import (
    ENABLED,
    GROUP,
    LETTERS,
    TOPIC,
    archiving,
    letters,
    metric,
    prepared,
    produce,
    reject,
    stored,
)

TOPIC_NAME = "errors.deadletterqueue.topic.name"


def test_rejected_and_released_records_have_letters_and_accepted_ones_have_none(
    tmp_path: Path,
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=6) as consumer:
            while await metric(broker, "total") != 4:
                for record in await consumer.poll(timeout_ms=100):
                    if record.offset % 3 == 0:
                        consumer.reject(record)
                    elif record.offset % 3 == 1:
                        consumer.release(record)
                    else:
                        consumer.accept(record)
                await consumer.commit()
            found = await letters(broker, 4)
        assert sorted((int(one["offset"]), one["cause"]) for one in found) == [
            (0, "rejected"),
            (1, "released"),
            (3, "rejected"),
            (4, "released"),
        ]

    run(tmp_path, scenario)


def test_a_group_whose_topic_is_cleared_has_no_more_letters(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=5) as consumer, Admin(f"127.0.0.1:{port}") as admin:
            await reject(consumer, 5)
            await letters(broker, 5)
            await admin.alter_configs("group", GROUP, {TOPIC_NAME: ""})
            await produce(port, 5)
            await reject(consumer, 5)
            assert await broker.parts.state.keys_with_dead() == []
            assert not await consumer.poll(timeout_ms=100)
        assert len(await stored(broker)) == 5
        assert await metric(broker, "total") == 5

    run(tmp_path, scenario)


def test_letters_that_wait_when_the_topic_is_cleared_wait_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with (
            prepared(port, records=2, topic=False) as consumer,
            Admin(f"127.0.0.1:{port}") as admin,
        ):
            await reject(consumer, 2)
            await admin.alter_configs("group", GROUP, {TOPIC_NAME: ""})
            await until(lambda: "names no dead-letter topic any more" in caplog.text)
            assert [(one.first, one.last) for one in await archiving(port)] == [(0, 1)]
            await admin.create_topics(LETTERS, configs=ENABLED)
            await admin.alter_configs("group", GROUP, {TOPIC_NAME: LETTERS})
            assert [one["offset"] for one in await letters(broker, 2)] == ["0", "1"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("what", ["group", "topic"])
def test_letters_that_wait_are_lost_with_their_group_or_topic_which_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=2, topic=False) as consumer:
            await reject(consumer, 2)
        async with Admin(f"127.0.0.1:{port}") as admin:
            if what == "group":
                await admin.delete_groups(GROUP)
            else:
                await admin.delete_topics(TOPIC)
            await until(lambda: not broker.parts.state.dead_counts())
            await admin.create_topics(LETTERS, configs=ENABLED)
        assert await stored(broker) == []

    run(tmp_path, scenario)
    (line,) = [one for one in caplog.messages if "never will be" in one]
    assert "is deleted: 2 records had failed for good" in line
