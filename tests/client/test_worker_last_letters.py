"""A worker ends while dead letters of its own are under way, or wait for a slot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client import Admin, Producer, Record, Reject, ShareConsumer
from sharegroup.client.worker import dead_letters, worker
from sharegroup.model.environment import DiskFile
from sharegroup.storage.disk import LocalDisk
from tests.broker.running import run
from tests.client.worker_jobs import until, worker_metrics
from tests.client.working import WAIT_S, poll_until

JOBS, DEAD, GROUP = "jobs", "dead", "workers"


class HoldingDisk(LocalDisk):
    """While ``holds``, what is appended to the dead-letter topic becomes durable when ``may_end``
    is set."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.asked, self.may_end = asyncio.Event(), asyncio.Event()

    async def sync(self, files: Sequence[DiskFile]) -> None:
        if self.holds and any(f"/{DEAD}-0" in file.path for file in files):
            self.asked.set()
            await self.may_end.wait()
        await super().sync(files)


async def prepare(port: int, records: int, *, limit: int) -> None:
    async with Admin(f"127.0.0.1:{port}") as admin, Producer(f"127.0.0.1:{port}") as producer:
        await admin.create_topics(JOBS, DEAD)
        start = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(limit)}
        await admin.alter_configs("group", GROUP, start)
        for number in range(records):
            await producer.enqueue(JOBS, str(number))


def member(port: int) -> ShareConsumer:
    return ShareConsumer(JOBS, group_id=GROUP, bootstrap_servers=f"127.0.0.1:{port}")


async def lag(port: int) -> int:
    async with Admin(f"127.0.0.1:{port}") as admin:
        [found] = (await admin.list_share_group_offsets(GROUP)).values()
    return found.lag


def test_a_letter_under_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CANCELLED_S", WAIT_S)
    disk = HoldingDisk()

    async def handler(record: Record) -> None:
        raise Reject("no")

    async def scenario(broker: Broker, port: int) -> None:
        await prepare(port, 1, limit=5)
        disk.holds = True
        consumer = member(port)
        working = asyncio.create_task(consumer.run(handler, dead_letter=DEAD, drain_s=0))
        await disk.asked.wait()
        consumer.stop()
        await until(lambda: consumer._worker._slots._closed)  # the drain is over
        disk.may_end.set()
        await working
        seen = worker_metrics(consumer)
        assert (seen["dead-lettered-total"], seen["released-total"]) == (1, 0)
        assert await lag(port) == 0

    run(tmp_path, scenario, disk=disk)


def test_what_ends_without_a_letter_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "_CANCELLED_S", 0.0)
    monkeypatch.setattr(dead_letters, "_CLOSE_S", 0.0)
    disk = HoldingDisk()

    async def handler(record: Record) -> None:
        raise AssertionError("its last delivery is for the letter")

    async def scenario(broker: Broker, port: int) -> None:
        await prepare(port, 3, limit=2)
        disk.holds = True
        async with member(port) as dying:
            await poll_until(dying, 3)  # and gives them back when it is closed
        consumer = member(port)
        working = asyncio.create_task(
            consumer.run(handler, concurrency=1, prefetch=2, dead_letter=DEAD, drain_s=0)
        )
        await disk.asked.wait()
        await until(lambda: worker_metrics(consumer)["waiting"] == 2)
        consumer.stop()
        await working
        disk.may_end.set()
        seen = worker_metrics(consumer)
        assert (seen["dead-lettered-total"], seen["released-total"]) == (0, 0)
        assert await lag(port) == 0, "they are archived"

    run(tmp_path, scenario, disk=disk)
    said = "no confirmed dead letter and no delivery left: the broker archives them"
    assert f"these records have {said}: jobs-0@0, jobs-0@1, jobs-0@2" in caplog.text
