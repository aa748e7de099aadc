"""The whole Spark program is killed in the middle of a batch, and started from its checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.servers.admin import produce
from tests.servers.running import RunningServer
from tests.spark.conftest import lags, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.process]

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 3_000
PER_BATCH = 250


class Program:
    """``killed_program`` in a process group of its own, so that its JVM and workers die with it."""

    def __init__(self, server: RunningServer, topic: str, folder: Path) -> None:
        self.log = folder / "program.log"
        command = [sys.executable, "-m", "tests.spark.killed_program"]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, server.bootstrap, topic, str(folder), str(PER_BATCH)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def wait(self) -> None:
        try:
            assert self.process.wait(150) == 0, self.log.read_text()[-4_000:]
        finally:
            if self.process.poll() is None:
                self.kill()


def test_kill_9_of_the_program_loses_nothing_and_repeats_nothing(
    server: RunningServer, topic: str, tmp_path: Path
) -> None:
    values = [b"%d" % n for n in range(RECORDS)]
    produce(server.bootstrap, topic, values)
    checkpoint = tmp_path / "checkpoint"
    program = Program(server, topic, tmp_path)
    try:
        wait_for(checkpoint / "offsets", "[0-9]*", 3)  # the newest one's batch is under way
    finally:
        program.kill()
    assert len(list((tmp_path / "sink").glob("*.txt"))) < RECORDS // PER_BATCH
    Program(server, topic, tmp_path).wait()
    texts = [file.read_text() for file in (tmp_path / "sink").glob("*.txt")]
    found = Counter(line.encode() for text in texts for line in text.splitlines())
    assert found == Counter(values)
    assert lags(server, topic) == [0, 0, 0, 0]
