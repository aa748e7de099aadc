"""The workload as a process that is killed as a whole, and a look at the processes under it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE_RUNNER = "python_streaming_source_runner"
SINK_RUNNER = "python_streaming_sink_runner"
DAEMON = "pyspark.daemon"
WORKERS = ("pyspark.worker", SINK_RUNNER)


@dataclass(frozen=True, slots=True)
class Process:
    """One row of /proc."""

    pid: int
    parent: int
    session: int
    command: str


def processes() -> Iterator[Process]:
    """All processes that can be looked at now."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (
                (entry / "cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
                .strip()
            )
        except OSError:
            continue  # it has ended meanwhile
        yield Process(int(entry.name), int(stat[1]), int(stat[3]), command)


class Program:
    """`workload` over these seeds, in a session of its own."""

    def __init__(self, bootstrap: str, folder: Path, seeds: Iterable[int]) -> None:
        self._command = [sys.executable, "-m", "tests.spark.crash.workload", bootstrap, str(folder)]
        self._command += map(str, seeds)
        self.log = folder / "program.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL to the program, its JVM and what that started; does nothing when it has ended."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(240)

    def failed(self) -> bool:
        """Whether it has ended otherwise than it should."""
        return self._process is not None and self._process.poll() not in (None, 0)

    def wait(self, seconds: float) -> None:
        """For its end; raises AssertionError when it fails, TimeoutExpired when it does not end."""
        assert self._process is not None
        assert self._process.wait(seconds) == 0, self.tail()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4_000:]

    def sources(self) -> list[int]:
        """The processes that acquire and settle, one for each running query."""
        return [process.pid for process in self._own() if SOURCE_RUNNER in process.command]

    def committers(self) -> list[int]:
        """The processes that run the commit of the sink `kafka-share`."""
        workers = set(self.workers())
        return [p.pid for p in self._own() if p.pid in workers and SINK_RUNNER in p.command]

    def workers(self) -> list[int]:
        """The processes that run tasks and the sink's commit. Without those that plan a query or
        look for its source: their end is the end of `start()`, and there is no query yet."""
        own = list(self._own())
        daemons = {p.pid for p in own if DAEMON in p.command and p.command.endswith(WORKERS)}
        return [process.pid for process in own if process.parent in daemons]

    def _own(self) -> list[Process]:
        if self._process is None:
            return []
        session = self._process.pid
        return sorted((p for p in processes() if p.session == session), key=lambda p: p.pid)
