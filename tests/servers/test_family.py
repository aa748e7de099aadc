"""A small run of pytest is interrupted or killed while its tests have processes; none stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from tests.servers import family

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240
WORKERS = 2
EACH_TEST_STARTS = 4
"""A server, a shell with an environment of its own, and two jobs that the shell does not end."""

# A test stays in its fixture or its body; one job leaves its process group and ignores SIGTERM.
TESTS = """
import os, pytest, subprocess, sys, threading
from tests.servers.process import ServerProcess

STUBBORN = (
    "import os, signal; os.setsid(); signal.signal(15, signal.SIG_IGN); print(flush=True);"
    " signal.pause()"
)

def start_and_stay(folder):
    ServerProcess(["sleep", "1000"], log_path=folder / "server.log").start()
    shell = subprocess.Popen(
        ["bash", "-c", 'sleep 1000 & "$1" -c "$2" & wait', "shell", sys.executable, STUBBORN],
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
        start_new_session=True,
    )
    shell.stdout.readline()
    print("started", file=open(os.environ["STARTED"], "a"))
    if "STAY" in os.environ:
        threading.Event().wait()

@pytest.fixture
def started(tmp_path):
    start_and_stay(tmp_path)

def test_with_a_fixture(started):
    pass

def test_without(tmp_path):
    start_and_stay(tmp_path)
"""

pytestmark = pytest.mark.process


class Run:
    """A run of pytest with two workers, each in a test that does not end."""

    def __init__(self, folder: Path, *, stay: bool = True) -> None:
        (folder / "test_small.py").write_text(TESTS)
        started = folder / "started"
        started.touch()
        self.family = f"{os.environ[family.VARIABLE]}/{folder.name}"
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pytest", "-q"),
                    *("-p", "tests.conftest", "-p", "xdist", "-p", "pytest_timeout"),
                    *(f"-n{WORKERS}", "--max-worker-restart=0", "--rootdir", folder),
                    *("-p", "no:cacheprovider", "--basetemp", folder / "temp"),
                    folder / "test_small.py",
                ],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                    family.VARIABLE: self.family,
                    "STARTED": str(started),
                    **({"STAY": "1"} if stay else {}),
                },
                stdout=output,
                stderr=output,
                start_new_session=True,  # so that it alone gets a terminal's Ctrl-C
            )
        wait_until(lambda: len(started.read_text().split()) == WORKERS, folder / "output")

    def workers(self) -> list[int]:
        """The processes of pytest-xdist: each has begun a family of its own."""
        kept = {name_of(process).rpartition(":")[2] for process in family.members(self.family)}
        return [int(pid) for pid in kept if pid.isdigit() and int(pid) != self.process.pid]


def name_of(process: int) -> str:
    """The family's name in the environment of a process."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            if line.startswith(family.VARIABLE.encode()):
                return line.decode()
    return ""


def wait_until(ready: Callable[[], bool], output: Path) -> None:
    deadline = monotonic() + SECONDS
    while not ready():
        assert monotonic() < deadline, output.read_text()
        Event().wait(0.02)


@contextmanager
def running(folder: Path) -> Iterator[Run]:
    """A run in the middle of its tests, which must be gone afterwards with all that it started."""
    run = Run(folder)
    try:
        assert len(list(family.members(run.family))) == 1 + WORKERS + WORKERS * EACH_TEST_STARTS
        yield run
        run.process.wait(SECONDS)
        wait_until(lambda: not list(family.members(run.family)), folder / "output")
    finally:
        family.end(run.family)
        run.process.wait()


def test_nothing_stays_after_ctrl_c(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        os.killpg(run.process.pid, signal.SIGINT)


def test_nothing_stays_of_killed_workers(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        workers = run.workers()
        assert len(workers) == WORKERS
        for worker in workers:
            os.kill(worker, signal.SIGKILL)


def test_nothing_stays_after_the_run_itself_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        run.process.kill()


def test_what_a_test_forgot_ends_with_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, stay=False)
    assert run.process.wait(SECONDS) == 0
    assert not list(family.members(run.family))
    assert "Warning" not in (tmp_path / "output").read_text()
