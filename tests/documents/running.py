"""Runs the programs of a page as a reader would: each a fresh process, from top to bottom.

A page has a folder of its own, in which its shell works and its files lie, and, where its programs
name a broker, one `sharegroup serve` of its own, which the page may also start itself. Ports are
the one thing that is changed: each ``127.0.0.1:9092`` or ``localhost:9092`` of a page, in programs
and in what they print, becomes a free port, since many pages run on one machine at a time.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.documents.pages import ROOT, Block, Page
from tests.servers.process import HOST, ServerProcess, answers_api_versions, free_port
from tests.servers.sharegroup_server import START_SECONDS, SharegroupServer

PROGRAM_S: Final = 500
_ADDRESS = re.compile(r"(?P<host>127\.0\.0\.1|localhost|0\.0\.0\.0):(?P<port>\d{4,5})\b")
_SERVE = re.compile(r"^(?P<serve>[^#\n|]*\bsharegroup serve\b)(?!.*--(listen|help|config))", re.M)
_STAYS = re.compile(r"\bsharegroup serve\b[^|&]*$")
_BROKER_PORT: Final = 9092
_END_OF_COMMAND: Final = "\x1e"


class DocumentError(AssertionError):
    """A program of a page does not do what the page says."""


class RunningPage:
    """A page that is tried; what it has started ends with it.

    ``python`` is that of an environment which has sharegroup installed; None: this one, with the
    sources of this repository.
    """

    def __init__(self, page: Page, folder: Path, *, python: Path | None = None) -> None:
        self.page = page
        self._folder = folder
        self._python = str(python or sys.executable)
        self._sources = {"PYTHONPATH": str(ROOT / "src")} if python is None else {}
        self._shell = folder / "shell"
        self._ports: dict[str, int] = {str(_BROKER_PORT): free_port()}
        self._broker: SharegroupServer | None = None
        self._own_broker: ServerProcess | None = None
        self._broker_is_the_pages = False
        self._groups: list[int] = []

    def __enter__(self) -> Self:
        self._shell.mkdir()
        for block in self.page.files:
            path = self._shell / block.file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._moved(block.text))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_broker()
        if self._own_broker is not None:
            self._own_broker.kill()
        for group in self._groups:  # what a shell has left in the background
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def run_all(self) -> None:
        """Raises DocumentError at the first program that does not do what the page says."""
        for number, program in enumerate(self.page.programs):
            self._give_broker(program)
            if program.language == "console":
                self._run_console(program)
            elif program.language == "bash":
                self._run_bash(program)
            else:
                self._run_python(program, self._folder / f"program-{number}")

    # --- brokers ----------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Where the page's broker listens."""
        return f"{HOST}:{self._ports[str(_BROKER_PORT)]}"

    def _give_broker(self, program: Block) -> None:
        """The page's broker, unless the page starts it or nothing here needs one."""
        if "sharegroup serve" in program.text:
            self._stop_broker()
            self._broker_is_the_pages = True
        needs = str(_BROKER_PORT) in program.text or "sharegroup " in program.text
        if needs and self._broker is None and not self._broker_is_the_pages:
            port = self._ports[str(_BROKER_PORT)]
            self._broker = SharegroupServer(self._folder, port=port)
            self._broker.start()

    def _stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    # --- programs ---------------------------------------------------------------------------------

    def _run_python(self, program: Block, folder: Path) -> None:
        folder.mkdir()
        name = "test_page.py" if program.is_pytest else "program.py"
        (folder / name).write_text(self._moved(program.text))
        command = [self._python, name]
        if program.is_pytest:
            (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
            command = [self._python, "-m", "pytest", "-q", name]
        status, printed, errors = self._run(command, folder)
        if status != 0:
            raise DocumentError(f"{program.place} ended with status {status}:\n{printed}{errors}")
        self._compare(program.place, program.output, printed)

    def _run_bash(self, program: Block) -> None:
        script = self._script(program.text)
        if _STAYS.search(program.text.rstrip()):
            self._start_server(program, script)
            return
        status, printed, errors = self._run(["bash", "-euo", "pipefail", "-c", script], self._shell)
        if status != 0:
            raise DocumentError(f"{program.place} ended with status {status}:\n{printed}{errors}")
        self._compare(program.place, program.output, printed)

    def _start_server(self, program: Block, script: str) -> None:
        """A server in the foreground: the reader goes on in another window."""
        self._own_broker = ServerProcess(
            ["bash", "-euc", f"cd {self._shell}; exec {script.strip()}"],
            log_path=self._folder / "server.log",
            environment=self._environment(),
        )
        self._own_broker.start()
        port = self._ports[str(_BROKER_PORT)]
        self._own_broker.wait_until(lambda: answers_api_versions(port), timeout_s=START_SECONDS)

    def _run_console(self, program: Block) -> None:
        """One shell for the block; each command's output, errors among it, as on a terminal."""
        commands = list(console_commands(program.text))
        script = "".join(
            f"{self._script(command)}\nprintf '{_END_OF_COMMAND}'\n" for command, _ in commands
        )
        _, printed, _ = self._run(["bash", "-c", script], self._shell, together=True)
        outputs = printed.split(_END_OF_COMMAND)
        for (command, shown), output in zip(commands, outputs, strict=False):
            self._compare(f"{program.place}: {command}", shown, output)

    def _run(
        self, command: list[str], folder: Path, *, together: bool = False
    ) -> tuple[int, str, str]:
        """Status, output and errors; with ``together`` the errors are in the output."""
        outputs = [self._folder / "stdout", self._folder / "stderr"]
        # Files: what a shell leaves in the background would keep a pipe open.
        with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out if together else err,
                start_new_session=True,
            )
            self._groups.append(process.pid)
            try:
                status = process.wait(PROGRAM_S)
            except subprocess.TimeoutExpired:
                status = -1
        printed, errors = (path.read_text(errors="replace") for path in outputs)
        if status == -1:
            raise DocumentError(f"{command[-1]}\ndid not end:\n{printed}{errors}")
        return status, printed, errors

    def _environment(self) -> dict[str, str]:
        bin_folder = Path(self._python).parent
        return {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            **self._sources,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "SHAREGROUP_BOOTSTRAP_SERVER": self.bootstrap,
        }

    # --- what is changed and compared -------------------------------------------------------------

    def _moved(self, text: str) -> str:
        """The text with each address at its free port."""

        def moved(found: re.Match[str]) -> str:
            port = found["port"]
            if port not in self._ports:
                self._ports[port] = free_port()
            return f"{found['host']}:{self._ports[port]}"

        return _ADDRESS.sub(moved, text)

    def _script(self, text: str) -> str:
        return _SERVE.sub(rf"\g<serve> --listen {self.bootstrap}", self._moved(text))

    def _compare(self, place: str, shown: str | None, printed: str) -> None:
        if shown is None:
            return
        if not matches(self._moved(shown), printed):
            raise DocumentError(f"{place}\nthe page shows:\n{shown}\nit printed:\n{printed}")


def console_commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what the page shows after it."""
    for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
        yield found[1], found[2]


def matches(shown: str, printed: str) -> bool:
    """Whether a page's output is what was printed: spaces at the ends of lines do not count, and
    ``…`` stands for anything.
    """
    pattern = ".*?".join(re.escape(part) for part in _lines(shown).split("…"))
    return re.fullmatch(pattern, _lines(printed), re.DOTALL) is not None


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
