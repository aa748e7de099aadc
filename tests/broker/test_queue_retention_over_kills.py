"""Retention that knows the queue, over hours of virtual time, kills and restarts: no record goes
before the group that the topic names has accepted it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from sharegroup.client import Admin, Producer, ShareConsumer
from sharegroup.model.errors import KafkaError
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.working import WAIT_S

TOPIC, GROUP = "jobs", "workers"
HOUR_S, CHECK_S = 3_600, 0.1
ROUNDS, IN_ROUND = 12, 40
SETTINGS = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
CONFIGS = {
    "retention.ms": 0,
    "internal.segment.bytes": 300,  # some four records
    "share.retention.groups": GROUP,
}


async def prepare(kafka: LocalBroker, **topic: object) -> None:
    async with Admin(kafka.bootstrap) as admin:
        await admin.create_topics(TOPIC, partitions=1, configs={**CONFIGS, **topic})
        await admin.alter_configs("group", GROUP, SETTINGS)


async def produce(kafka: LocalBroker, first: int, count: int) -> None:
    """A batch for each record, of the broker's time."""
    async with Producer(kafka.bootstrap, clock_ms=lambda: kafka.now_ms) as producer:
        for number in range(first, first + count):
            await producer.send(TOPIC, str(number))


async def work(kafka: LocalBroker, seen: set[bytes | None]) -> None:
    """Take and accept every record; ``seen`` gets their values."""
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
                seen |= {record.value for record in records}
                consumer.accept(*records)
                await consumer.commit()
            except KafkaError:
                continue


def run_within(seconds: float, scenario: Coroutine[object, object, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await scenario

    asyncio.run(limited())


def test_hours_pass_and_what_is_unfinished_stays() -> None:
    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka, **{"share.retention.cap.ms": 30 * HOUR_S * 1000})
        await produce(kafka, 0, 10)
        await asyncio.to_thread(kafka.advance, 20 * HOUR_S)
        await produce(kafka, 10, 10)
        assert len(await asyncio.to_thread(kafka.values, TOPIC)) == 20
        await asyncio.to_thread(kafka.restart)
        await asyncio.to_thread(kafka.advance, 20 * HOUR_S)
        left = await asyncio.to_thread(kafka.values, TOPIC)
        assert left[-10:] == [str(number).encode() for number in range(10, 20)]
        assert len(left) < 14, "whole segments go that are older than the cap"

    with broker() as kafka:
        run_within(2 * WAIT_S, scenario(kafka))


# A client that the broker's loop was just accepting when it was killed leaves an open socket there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("in_memory", [True, False], ids=["power failure", "kill -9"])
def test_no_record_goes_before_it_is_accepted(
    in_memory: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In memory a kill loses what was not synced; on disk it does not."""

    async def scenario(kafka: LocalBroker) -> None:
        await prepare(kafka, **{"share.retention.drop.finished": True})
        seen: set[bytes | None] = set()
        working = asyncio.create_task(work(kafka, seen))
        for number in range(ROUNDS):
            producing = asyncio.create_task(produce(kafka, number * IN_ROUND, IN_ROUND))
            while not producing.done():  # the member holds some, and has finished others
                await asyncio.to_thread(kafka.advance, CHECK_S)
            await producing
            await asyncio.to_thread(kafka.kill)
            await asyncio.to_thread(kafka.start)
        await asyncio.to_thread(
            kafka.wait_until, lambda: kafka.group(GROUP).lag == 0, timeout_s=WAIT_S
        )
        working.cancel()
        assert seen == {str(number).encode() for number in range(ROUNDS * IN_ROUND)}
        assert "has lost" not in caplog.text

        def all_gone() -> bool:
            """After one more check: it may only close a segment, and may end after we look."""
            kafka.advance(CHECK_S)
            return not kafka.values(TOPIC)

        await asyncio.to_thread(kafka.wait_until, all_gone, timeout_s=WAIT_S)

    checks = {"log.retention.check.interval.ms": int(CHECK_S * 1000)}
    with broker(configs=checks, data=None if in_memory else tmp_path) as kafka:
        run_within(4 * WAIT_S, scenario(kafka))
