"""`sharegroup …` as a process of its own, as a shell runs it."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pytest

from sharegroup.cli import main
from tests.servers.sharegroup_server import SOURCE

SECONDS = 240
# How long to wait before it is believed that no record comes. Apache Kafka assigns a new member its
# partitions at its second heartbeat, after five seconds.
IDLE_SECONDS = "12" if os.environ.get("SHAREGROUP_TEST_BROKER") == "kafka" else "1.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a command left behind."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)

    @property
    def json_lines(self) -> list[Any]:
        """A JSON document on each line of stdout."""
        return [json.loads(line) for line in self.stdout.splitlines()]


class Commands:
    """Commands that find their broker through the environment."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "SHAREGROUP_BOOTSTRAP_SERVER": bootstrap,
            "COLUMNS": "100",
        }

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command with pipes on all three sides; `finish` it."""
        return subprocess.Popen(
            [sys.executable, "-m", "sharegroup", *words],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str, stdin: str = "") -> Finished:
        """Run a command to its end."""
        return finish(self.start(*words), stdin)

    def run_into(self, stdout: BinaryIO, *words: str) -> Finished:
        """Run a command that writes its output to a file."""
        done = subprocess.run(
            [sys.executable, "-m", "sharegroup", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            text=True,
        )
        return Finished(status=done.returncode, stdout="", stderr=done.stderr)

    def on_terminal(self, *words: str) -> str:
        """What a command that must succeed shows on a terminal."""
        ours, its = pty.openpty()
        with open(ours, "rb", buffering=0) as screen:
            process = subprocess.Popen(
                [sys.executable, "-m", "sharegroup", *words],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=its,
                stderr=subprocess.DEVNULL,
            )
            os.close(its)
            shown = b""
            with suppress(OSError):  # nobody holds the other side any more
                while some := screen.read(4096):
                    shown += some
            assert process.wait(SECONDS) == 0
        return shown.decode().replace("\r\n", "\n")

    def answering(
        self, typed: str, *words: str, after: str = "? ", then: tuple[str, str] = ("", "")
    ) -> tuple[int, str]:
        """The status of a command on a terminal, at which somebody types when it shows ``after``,
        and all that it shows. ``then`` is a further text to wait for, and what is typed then.
        """
        ours, its = pty.openpty()
        with open(ours, "r+b", buffering=0) as screen:
            process = subprocess.Popen(
                [sys.executable, "-m", "sharegroup", *words],
                env=self.environment,
                stdin=its,
                stdout=its,
                stderr=its,
                start_new_session=True,
                preexec_fn=_take_terminal,  # so that Ctrl-C is a signal
            )
            os.close(its)
            shown = b""
            with suppress(OSError):  # nobody holds the other side any more
                while some := screen.read(4096):
                    shown += some
                    if typed and after.encode() in shown:
                        screen.write(typed.encode())
                        (after, typed), then = then, ("", "")
            return process.wait(SECONDS), shown.decode().replace("\r\n", "\n")

    def inside(self, *words: str, stdin: str = "") -> Finished:
        """Run a command without a process of its own: it starts in no time."""
        stdout, stderr = io.StringIO(), io.StringIO()
        options = words.index("--") if "--" in words else len(words)
        broker = ("--bootstrap-server", self.bootstrap)
        with (
            redirect_stdout(stdout),
            redirect_stderr(stderr),
            _redirect_stdin(stdin),
            pytest.raises(SystemExit) as end,
        ):
            main([*words[:options], *broker, *words[options:]])
        return Finished(
            status=int(end.value.code or 0), stdout=stdout.getvalue(), stderr=stderr.getvalue()
        )

    def given(self, *words: str, stdin: str = "") -> Finished:
        """Run a command inside that must succeed: what a test needs, and is not about."""
        finished = self.inside(*words, stdin=stdin)
        assert finished.status == 0, finished
        return finished

    def ok(self, *words: str, stdin: str = "") -> Finished:
        """Run a command that must succeed."""
        finished = self.run(*words, stdin=stdin)
        assert finished.status == 0, finished
        return finished


@contextmanager
def _redirect_stdin(text: str) -> Iterator[None]:
    """What this process reads from its stdin."""
    before = sys.stdin
    with tempfile.TemporaryFile("w+", newline="") as file:
        file.write(text)
        file.seek(0)
        sys.stdin = file
        try:
            yield
        finally:
            sys.stdin = before


def _take_terminal() -> None:
    """Make stdin the terminal that this process belongs to."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def finish(process: subprocess.Popen[bytes], stdin: str = "") -> Finished:
    """Feed the rest, and wait for the end."""
    with process:
        try:
            stdout, stderr = process.communicate(stdin.encode(), timeout=SECONDS)
        finally:
            process.kill()
    return Finished(
        status=process.returncode,
        stdout=(stdout or b"").decode(),
        stderr=(stderr or b"").decode(),
    )
