"""A read-process-write pipeline over a share group is killed in every phase, and its broker too:
each result is there exactly once, and each job is acknowledged.

The checker knows nothing of the pipeline: it reads the results as a consumer with read_committed
does, and asks the group what is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.client import Admin, Consumer, Producer
from sharegroup.model.ids import TopicPartition
from tests.client.working import WAIT_S, fresh, run
from tests.servers.sharegroup_server import SOURCE, SharegroupServer

pytestmark = pytest.mark.process
ROOT = SOURCE.parent
JOBS = 150
PARTITIONS = 2
"""Of the results. The jobs have one: members that were killed keep their partitions for a while."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path) as running:
        yield running


class Pipeline:
    """Topics, a group, and the processes that work on them one after the other."""

    def __init__(self, kafka: SharegroupServer) -> None:
        self.kafka = kafka
        self.jobs, self.results, self.group = fresh("jobs"), fresh("results"), fresh("group")
        run(self._prepare)

    async def _prepare(self) -> None:
        settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
        async with Admin(self.kafka.bootstrap) as admin:
            await admin.create_topics(self.jobs, partitions=1)
            await admin.create_topics(self.results, partitions=PARTITIONS)
            await admin.alter_configs("group", self.group, settings)
        async with Producer(self.kafka.bootstrap) as producer:
            for number in range(JOBS):
                await producer.enqueue(self.jobs, str(number))

    def start(self, *kill_at: str) -> subprocess.Popen[str]:
        words = [self.kafka.bootstrap, self.jobs, self.results, self.group, *kill_at]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.client.pipeline_program", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), str(ROOT)))},
            stdout=subprocess.PIPE,
            text=True,
        )

    def kills_itself(self, *kill_at: str) -> None:
        with self.start(*kill_at) as process:
            try:
                process.communicate(timeout=WAIT_S)
            finally:
                process.kill()
        assert process.returncode == -signal.SIGKILL

    def killed_after(self, step: str) -> None:
        """Kill it when it says that it has come to a step: it is some way behind it by then."""
        with self.start() as process:
            until(process, step)
            process.kill()

    def works_to_the_end(self) -> None:
        with self.start() as process:
            try:
                run(self.check)
            finally:
                process.kill()

    async def check(self) -> None:
        """See the module."""
        found: Counter[bytes | None] = Counter()
        async with Consumer(
            bootstrap_servers=self.kafka.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign([(self.results, number) for number in range(PARTITIONS)])
            while len(found) < JOBS or await self._unfinished():
                found.update(one.value for one in await consumer.poll())
            found.update(one.value for one in await consumer.poll())
        assert found == Counter(str(number).encode() for number in range(JOBS))

    async def _unfinished(self) -> bool:
        async with Admin(self.kafka.bootstrap) as admin:
            told = await admin.describe_record_states(self.group)
            lags = await admin.list_share_group_offsets(self.group)
        at = TopicPartition(self.jobs, 0)
        assert not told[at].given_up, "a record was given up"
        return bool(told[at].ranges or lags[at].lag)


def until(process: subprocess.Popen[str], step: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == step:
            return
    raise AssertionError(f"it has ended before {step}")


def test_each_result_is_there_once_whenever_the_pipeline_is_killed(kafka: SharegroupServer) -> None:
    pipeline = Pipeline(kafka)
    for kill_at in [("read", "1"), ("sent", "1"), ("held", "1"), ("committed", "1"), ("held", "2")]:
        pipeline.kills_itself(*kill_at)
    for step in ("sent", "held", "committed"):
        pipeline.killed_after(step)
    pipeline.works_to_the_end()


def test_the_broker_is_killed(kafka: SharegroupServer) -> None:
    """The pipeline goes on by itself when the broker is back."""
    pipeline = Pipeline(kafka)
    with pipeline.start() as process:
        try:
            for step in ("sent", "held", "committed", "held", "sent"):
                until(process, step)
                kafka.kill()
                kafka.start()
            run(pipeline.check)
        finally:
            process.kill()


def test_the_pipeline_is_killed_while_the_broker_is_away(kafka: SharegroupServer) -> None:
    """What it held is given back by the next one, from durable state alone."""
    pipeline = Pipeline(kafka)
    for step in ("held", "sent", "held"):
        with pipeline.start() as process:
            until(process, step)
            kafka.kill()
            process.kill()
        kafka.start()
    pipeline.works_to_the_end()
