"""Java's share consumers as members that record what they do (scripts/record_history.py)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from sharegroup.sim.plan import Plan
from sharegroup.sim.topic import TOPIC
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN

SOURCE = Path(__file__).parent / "java" / "HistoryMembers.java"


class JavaMembers:
    """All members of all groups, in one Java. Each writes its own lines of the history, with the
    clock that Python's ``time.monotonic`` has on Linux.

    Args:
        members: as ``group/member``.
        write: takes each line, from another thread.
    """

    def __init__(
        self, plan: Plan, members: Sequence[str], write: Callable[[str], object], address: str
    ) -> None:
        self._plan, self._members, self._write = plan, members, write
        self._address = address
        self._process: subprocess.Popen[str] | None = None
        self._leaves = False

    @property
    def leaves(self) -> bool:
        """Whether they shall leave."""
        return self._leaves

    @leaves.setter
    def leaves(self, leaves: bool) -> None:
        self._leaves = leaves
        if leaves and self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def run(self) -> None:
        """Until they shall leave."""
        with tempfile.TemporaryDirectory() as classes:
            path = await asyncio.to_thread(compile_java, SOURCE, Path(classes))
            errors = Path(classes) / "errors.log"
            with self._start(path, errors) as self._process:
                try:
                    await asyncio.to_thread(self._read, self._process)
                    status = await asyncio.to_thread(self._process.wait)
                    if status or not self.leaves:
                        raise RuntimeError(f"Java's members have ended: {errors.read_text()}")
                finally:
                    self._process.kill()

    def stop(self) -> None:
        """Nothing of them runs (SIGSTOP) until :meth:`go_on`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """As before."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _start(self, class_path: str, errors: Path) -> subprocess.Popen[str]:
        plan = self._plan
        parts = plan.release, plan.reject, plan.slow, plan.lock_ms + 500
        command = [
            *(java_command(), *SHORT_RUN, QUIET, "-cp", class_path, "HistoryMembers"),
            *(self._address, TOPIC, str(plan.seed), *map(str, parts), *self._members),
        ]
        with errors.open("w") as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._write(line.rstrip("\n"))
