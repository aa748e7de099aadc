"""Retention that knows the queue, over days of virtual time, kills and restarts: no record goes
before the group that the topic names has accepted it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.client import Admin, ShareConsumer
from sharegroup.model.errors import KafkaError
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.working import WAIT_S

TOPIC, GROUP = "jobs", "workers"
DAY_S = 86_400
ROUNDS, IN_ROUND = 24, 10
CONFIGS = {
    "retention.ms": 1000,
    "segment.bytes": 1_048_576,
    "segment.ms": 1000,
    "share.retention.groups": GROUP,
}


async def prepare(kafka: LocalBroker, **topic: object) -> None:
    async with Admin(kafka.bootstrap) as admin:
        await admin.create_topics(TOPIC, partitions=1, configs={**CONFIGS, **topic})
        await admin.alter_configs("group", GROUP, {"share.auto.offset.reset": "earliest"})


async def produce(kafka: LocalBroker, first: int, count: int) -> None:
    values = [str(number) for number in range(first, first + count)]
    await asyncio.to_thread(kafka.produce, TOPIC, values)


async def work(kafka: LocalBroker, accepted: list[bytes], some: asyncio.Event) -> None:
    """Accept every record; of each poll, ``accepted`` gets what was confirmed."""
    async with ShareConsumer(
        TOPIC,
        group_id=GROUP,
        bootstrap_servers=kafka.bootstrap,
        acknowledgement_mode="explicit",
        max_poll_records=7,
    ) as consumer:
        while True:
            try:
                records = await consumer.poll(timeout_ms=100)
                consumer.accept(*records)
                outcomes = await consumer.commit()
            except KafkaError:
                continue
            if records and set(outcomes.values()) <= {None}:
                accepted += [record.value for record in records]
                some.set()


def run_within(seconds: float, scenario: object) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await scenario  # type: ignore[misc]

    asyncio.run(limited())


def test_days_pass_and_what_is_unfinished_stays() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka, **{"share.retention.cap.ms": 30 * DAY_S * 1000})
        await produce(kafka, 0, 10)
        await asyncio.to_thread(kafka.advance, 20 * DAY_S)
        await produce(kafka, 10, 10)
        assert len(await asyncio.to_thread(kafka.values, TOPIC)) == 20
        await asyncio.to_thread(kafka.restart)
        await asyncio.to_thread(kafka.advance, 20 * DAY_S)
        left = await asyncio.to_thread(kafka.values, TOPIC)
        assert left == [str(number).encode() for number in range(10, 20)], "40 days: the cap"

    with broker(configs={"log.retention.check.interval.ms": DAY_S * 500}) as kafka:
        run_within(2 * WAIT_S, scenario(kafka))


@pytest.mark.parametrize("in_memory", [True, False], ids=["power failure", "kill -9"])
def test_no_record_goes_before_it_is_accepted(in_memory: bool, tmp_path: Path) -> None:
    """In memory a kill loses what was not synced; on disk it does not."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka, **{"share.retention.drop.finished": True})
        accepted: list[bytes] = []
        some = asyncio.Event()
        working = asyncio.create_task(work(kafka, accepted, some))
        for number in range(ROUNDS):
            await produce(kafka, number * IN_ROUND, IN_ROUND)
            await asyncio.to_thread(kafka.advance, 400)  # a retention check; all is past retention
            if number % 3 == 2:
                some.clear()
                await some.wait()
                await asyncio.to_thread(kafka.kill)
                await asyncio.to_thread(kafka.start)
        wanted = {str(number).encode() for number in range(ROUNDS * IN_ROUND)}
        while not wanted <= set(accepted):
            some.clear()
            await some.wait()
        working.cancel()
        group = await asyncio.to_thread(kafka.group, GROUP)
        assert group.lag == 0
        for _ in range(2):
            await asyncio.to_thread(kafka.advance, 400)
        assert not await asyncio.to_thread(kafka.values, TOPIC)

    with broker(data=None if in_memory else tmp_path) as kafka:
        run_within(4 * WAIT_S, scenario(kafka))
