"""kill -9 at each step of a claim: started again, the query has every record once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.crash.checker import sink_results, violations
from tests.spark.crash.claiming_program import PARTITIONS, Step, lane_of, run
from tests.spark.crash.lane import Lane, LaneFolder
from tests.spark.crash.program import ROOT
from tests.spark.crash.round import BROKER_OPTIONS
from tests.spark.readers import produce_singly

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

PROGRAM_SECONDS = 400
POINTS = (
    (Step.WRITTEN, 1),
    (Step.SYNCED, 5),
    (Step.NAMED, 2),
    (Step.DURABLE, 1),
    (Step.DURABLE, 6),
    (Step.ACCEPTED, 4),
)
"""At which claim it dies: one of the first batch, or one of a later batch."""


@pytest.fixture(
    params=[
        pytest.param(SharegroupServer, id="sharegroup"),
        pytest.param(KafkaBroker, id="kafka", marks=pytest.mark.kafka),
    ]
)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    """A broker on which the sessions and locks of a dead member end after seconds."""
    with request.param(tmp_path / "broker", *BROKER_OPTIONS) as running:
        yield running


def test_a_query_killed_at_any_step_of_a_claim(server: RunningServer, tmp_path: Path) -> None:
    lanes = {point: lane_of(seed) for seed, point in enumerate(POINTS)}
    for lane in lanes.values():
        prepare(server, lane, tmp_path)
    for (step, claim), lane in lanes.items():
        program = killed(server, lane, tmp_path, step, claim)
        assert program.returncode == -signal.SIGKILL, program.stderr
    wrong = []
    for lane in lanes.values():
        run(server.bootstrap, lane, LaneFolder(tmp_path, lane))
        wrong += violations(server.bootstrap, tmp_path, lane)
        wrong += repeated(lane, tmp_path)
    assert wrong == []


def prepare(server: RunningServer, lane: Lane, folder: Path) -> None:
    LaneFolder(folder, lane).prepare()
    admin.Admin(server.bootstrap).create_topic(lane.name, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        numbers = range(partition, lane.records, PARTITIONS)
        produce_singly(server, lane.name, [b"%d" % n for n in numbers], partition=partition)


def killed(
    server: RunningServer, lane: Lane, folder: Path, step: Step, claim: int
) -> subprocess.CompletedProcess[str]:
    arguments = (server.bootstrap, str(folder), str(lane.seed), step.name, str(claim))
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.crash.claiming_program", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PROGRAM_SECONDS,
    )


def repeated(lane: Lane, folder: Path) -> list[str]:
    """Nobody else is in the group and no batch ran again: no record may be in two batches."""
    rows, _ = sink_results(lane, LaneFolder(folder, lane).sink)
    twice = len(rows) - len({row.number for row in rows})
    return [f"{lane.name}: {twice} records are in two batches"] if twice else []
