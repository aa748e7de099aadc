"""Processes of the demo: started, watched, killed on purpose, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

EXAMPLES = Path(__file__).resolve().parent.parent
START_SECONDS = 30
STOP_SECONDS = 15
LOG_LINES = 15


class ChildFailed(Exception):
    """A process ended unexpectedly; the text ends with the last lines of its log."""


class Child:
    """A Python module as a process, with its log in a file.

    It runs in its own session. So Ctrl-C reaches only the demo, which then stops its children in
    order, and a kill also ends the processes that the child has started (Spark's Java).
    """

    tells_when_ready = False

    def __init__(self, name: str, log: Path, *command: str) -> None:
        self.name = name
        self._log = log
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, with the modules of the demo on its path."""
        paths = [str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *self._command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if self.tells_when_ready else log,
                stderr=log,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(paths),
                    "PYSPARK_PYTHON": sys.executable,
                },
            )

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.returncode if self._process is not None else None

    def check(self, *allowed: int) -> None:
        """Raise ChildFailed unless it runs, or has ended with a status that is ``allowed``."""
        if self.status not in (None, *allowed):
            raise ChildFailed(f"{self.name} ended with status {self.status}\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The end of what it wrote."""
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])

    async def kill(self) -> None:
        """kill -9 the process and all processes that it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # all of it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    def finish(self) -> None:
        """SIGTERM: the process finishes its work and ends."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    async def stop(self) -> int | None:
        """SIGTERM, then SIGKILL if it is still running; return the exit status."""
        if self._process is not None and self._process.returncode is None:
            self.finish()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
        await self.kill()
        return self.status

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


class Victim(Protocol):
    """A process that is killed and started again."""

    name: str

    async def kill(self) -> None:
        """kill -9."""
        ...

    async def start(self) -> None:
        """Returns when it answers."""
        ...


class Broker(Child):
    """``sharegroup serve`` on a free port: the same one when it is started again."""

    tells_when_ready = True

    def __init__(
        self, data: Path, log: Path, name: str = "the broker", arguments: Sequence[str] = ()
    ) -> None:
        super().__init__(name, log)
        self.address = "127.0.0.1:0"
        self._data = data
        self._arguments = arguments

    def victims(self, _leader: str) -> Sequence[Victim]:
        """What is killed, and started again: itself."""
        return (self,)

    async def start(self) -> None:
        """Returns when it accepts connections: it says so in one line."""
        listen = ("--listen", self.address, "--data", str(self._data))
        self._command = ("sharegroup", "serve", *listen, *self._arguments)
        await super().start()
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = (await self._process.stdout.readline()).decode()
        ready = re.search(r"ready on (\S+),", line)
        if ready is None:
            await self._process.wait()
            raise ChildFailed(f"the broker did not start: {line}\n{self.log_tail()}")
        self.address = ready[1]


class ConsolePage(Child):
    """``sharegroup console`` on a free port: what happens, in the browser."""

    tells_when_ready = True

    def __init__(self, broker: str, log: Path) -> None:
        address = ("127.0.0.1:0", "--bootstrap-server", broker)
        super().__init__("the console", log, "sharegroup", "console", *address)
        self.address = ""

    async def start(self) -> None:
        """Returns when it answers: it says so in one line."""
        await super().start()
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = (await self._process.stdout.readline()).decode()
        ready = re.search(r"http://\S+/", line)
        if ready is None:
            await self._process.wait()
            raise ChildFailed(f"the console did not start: {line}\n{self.log_tail()}")
        self.address = ready[0]
