"""A redrive is killed again and again, and each letter is redriven once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.dead_letters import jobs_and_letters, read_all, values, write_letters
from tests.client.working import WAIT_S, run
from tests.servers.sharegroup_server import SOURCE

pytestmark = pytest.mark.process
ROOT = SOURCE.parent


@pytest.fixture
def kafka() -> Iterator[LocalBroker]:
    with broker() as running:
        yield running


def start(kafka: LocalBroker, group: str, *kill_at: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.client.redrive_program", kafka.bootstrap, group, *kill_at],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), str(ROOT)))},
        stdout=subprocess.PIPE,
        text=True,
    )


def redriven(kafka: LocalBroker, group: str, *kill_at: str) -> int:
    """The exit status of a redrive that kills itself."""
    with start(kafka, group, *kill_at) as process:
        try:
            process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    return process.returncode


def killed_after(kafka: LocalBroker, group: str, step: str) -> None:
    """Kill a redrive when it says that it has come to a step: it is some way behind it by then."""
    with start(kafka, group) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == step:
                break
        process.kill()


def test_each_letter_is_redriven_once_whenever_the_redrive_is_killed(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)
    run(lambda: write_letters(kafka, dead, group, topic, range(200)))
    for kill_at in [("begun", "1"), ("sent", "1"), ("committed", "1"), ("sent", "2")]:
        assert redriven(kafka, group, *kill_at) == -signal.SIGKILL
    for step in ("sent", "committed", "sent"):
        killed_after(kafka, group, step)
    assert redriven(kafka, group) == 0

    async def scenario() -> None:
        assert await values(kafka, topic) == list(range(200))
        for number in (0, 1):
            own = [int(one.value) for one in await read_all(kafka, topic, [number])]
            assert own == list(range(number, 200, 2)), "in the order of the letters"

    run(scenario)


def test_the_broker_is_killed(kafka: LocalBroker) -> None:
    """The redrive goes on by itself when the broker is back, or the next one does."""
    topic, dead, group = jobs_and_letters(kafka)
    run(lambda: write_letters(kafka, dead, group, topic, range(200)))
    with start(kafka, group) as process:
        assert process.stdout is not None
        lines = (line.strip() for line in process.stdout)
        for _ in range(3):
            while next(lines, "committed") != "committed":
                continue
            kafka.kill()
            kafka.start()
        process.communicate(timeout=WAIT_S)
    assert redriven(kafka, group) == 0

    async def scenario() -> None:
        assert await values(kafka, topic) == list(range(200))

    run(scenario)
