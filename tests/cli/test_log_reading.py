"""What `consume --peek` does where the log does not have an offset any more."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client import Admin, Consumer
from sharegroup.client.log_reading import LogReading, Spans
from sharegroup.model.errors import OffsetOutOfRange
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker

JOBS = TopicPartition("jobs", 0)
TASKS = TopicPartition("tasks", 0)


async def offsets(broker: LocalBroker, spans: Spans) -> list[tuple[str, int]]:
    """Topic and offset of all records that are read."""
    settings = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "none"}
    async with Consumer[bytes, bytes](**settings) as consumer:
        steps = [step async for step in LogReading(consumer, spans, ()).records()]
    return sorted((one.topic, one.offset) for step in steps for one in step)


def test_deleted_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: LocalBroker) -> None:
        async with Admin(broker.bootstrap) as admin:
            await admin.delete_records({JOBS: 3, TASKS: 6})
        found = await offsets(broker, {JOBS: (1, 5), TASKS: (0, 6)})
        assert found == [("jobs", 3), ("jobs", 4)]

    with local_broker() as broker:
        for topic in ("jobs", "tasks"):
            broker.create_topic(topic)
            broker.produce(topic, list("abcdef"))
        asyncio.run(scenario(broker))
    assert sorted(record.message for record in caplog.records if "skipped" in record.message) == [
        "skipped: 0-5 of tasks-0: they have been deleted",
        "skipped: 1-2 of jobs-0: they have been deleted",
    ]


def test_an_offset_after_the_end_is_an_error() -> None:
    async def scenario(broker: LocalBroker) -> None:
        with pytest.raises(OffsetOutOfRange, match="jobs-0 has no offset 7"):
            await offsets(broker, {JOBS: (7, 9)})

    with local_broker() as broker:
        broker.create_topic("jobs")
        broker.produce("jobs", ["one"])
        asyncio.run(scenario(broker))
