"""A server as a child process: started, awaited, measured, stopped or killed, never left behind.

Everything that the server prints goes to one file, so that no pipe can fill up and so that a
failure can quote it. The process is killed when the interpreter ends, whatever happened.
"""

from __future__ import annotations

import atexit
import itertools
import os
import random
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
POLL_SECONDS = 0.005
PORTS = (10_000, 32_000)
PORT_SHARES = 8
PORTS_SHARE = (PORTS[1] - PORTS[0]) // PORT_SHARES
"""Below those that Linux gives to clients: a client's port is taken without being asked for."""
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 7, -1)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """The server ended, or was not ready in time; the message ends with what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process has used: CPU of all its threads since its start, resident memory now."""

    cpu_seconds: float
    memory_bytes: int


class ServerProcess:
    """One server that may be started, stopped or killed, and started again in the same folder."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self.log_path = log_path
        self.environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; it may not be ready yet."""
        assert self._process is None, "already running"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
            )
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Return as soon as `ready()` holds; raises ServerFailed."""
        assert self._process is not None, "not running"
        deadline = time.monotonic() + timeout_s
        while not ready():
            try:
                status = self._process.wait(POLL_SECONDS)  # a pause that ends when the server does
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                self.kill()
                raise ServerFailed(f"not ready in {timeout_s} s\n{self.log_tail()}") from None
            self._forget()
            raise ServerFailed(f"ended with status {status}\n{self.log_tail()}")

    def stop(self, *, timeout_s: float = 120) -> int:
        """SIGTERM, wait, and return the exit status; a server that does not end is killed."""
        assert self._process is not None, "not running"
        self._process.terminate()
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(f"did not stop in {timeout_s} s\n{self.log_tail()}") from None
        self._forget()
        return status

    def kill(self) -> None:
        """SIGKILL, and wait for the end. Does nothing when it is not running."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._forget()

    def _forget(self) -> None:
        self._process = None
        atexit.unregister(self.kill)

    def usage(self) -> Usage:
        """CPU and memory of the running process, from /proc."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return Usage(
            cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND,
            memory_bytes=int(fields[21]) * PAGE_BYTES,
        )

    def output(self) -> str:
        """All that it has printed since its last start."""
        return self.log_path.read_text(errors="replace")

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.output().splitlines()[-lines:])


def _ports() -> Iterator[int]:
    """Ports that no other worker of pytest-xdist is given, and that the system gives to no client:
    a server is told its port some time before it listens there."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PORT_SHARES
    first = PORTS[0] + worker * PORTS_SHARE
    begin = random.randrange(PORTS_SHARE)
    for number in itertools.count(begin):
        yield first + number % PORTS_SHARE


_next_ports = _ports()


def free_port() -> int:
    """A TCP port that nobody listened on a moment ago, and that was not given out lately."""
    for port in _next_ports:
        with socket.socket() as listener, suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, port))
            return port
    raise AssertionError("the ports do not end")


def answers_api_versions(port: int) -> bool:
    """Whether a Kafka server on this port answers an ApiVersions request now."""
    try:
        with socket.create_connection((HOST, port), timeout=30) as connection:
            connection.sendall(API_VERSIONS_REQUEST)
            head = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return head[4:] == API_VERSIONS_REQUEST[8:12]
