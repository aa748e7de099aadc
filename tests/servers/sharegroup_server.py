"""Our own broker as a process: `python -m sharegroup serve`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.process import HOST, ServerProcess, Usage, answers_api_versions, free_port

SOURCE = Path(__file__).resolve().parents[2] / "src"
START_SECONDS = 200


class SharegroupServer:
    """`sharegroup serve` on a free port, with its data in `folder`.

    The same object may be started again after `stop` or `kill`: same port, same data.
    `options` are `-o key=value` settings, `arguments` any others of the command line.
    """

    name = "sharegroup"

    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.port = port or free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self.data = folder / "data"
        command = [sys.executable, "-m", "sharegroup", "serve"]
        command += ["--listen", self.bootstrap, "--data", str(self.data), *arguments]
        for option in options:
            command += ["-o", option]
        self.process = ServerProcess(
            command,
            log_path=folder / "server.log",
            environment={"PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"},
        )

    def prepare(self) -> None:
        """Nothing: it makes its own folder."""

    def start(self) -> None:
        """Start and wait for the line that says it accepts; raises ServerFailed."""
        self.process.start()
        self.process.wait_until(self._says_ready, timeout_s=START_SECONDS)

    def start_and_probe(self) -> None:
        """Start and wait for an answer to ApiVersions: the same question that Kafka is asked."""
        self.process.start()
        self.process.wait_until(lambda: answers_api_versions(self.port), timeout_s=START_SECONDS)

    def _says_ready(self) -> bool:
        return f"ready on {self.bootstrap}" in self.output()

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def usage(self) -> Usage:
        return self.process.usage()

    def output(self) -> str:
        return self.process.output()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill() if error else self._stop_if_running()

    def _stop_if_running(self) -> None:
        if self.process.running:
            self.stop()
