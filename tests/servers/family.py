"""Whatever a test process starts ends with it, however it ends: passed, interrupted or killed.

The processes of a run bear its name in their environment, and hand it on to those that they start
themselves: Spark's JVM and the Python workers of that, a shell's background jobs. A run inside
another, such as a worker of pytest-xdist, appends a name of its own. A keeper, which no Ctrl-C
reaches, holds the other end of a pipe; once the test process has gone, it ends who bears the name.

Neither process groups nor Linux's death signal would do: a grandchild leaves its group, and is not
told of its grandparent's death.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "SHAREGROUP_TEST_FAMILY"
PAUSE_S = 0.02
GRACE_S = 5
"""A broker closes its files, and a JVM removes its folders."""


def begin() -> None:
    """From now on, what this process starts belongs to it. A second call does nothing."""
    above = os.environ.get(VARIABLE, "")
    if above.startswith("/") and above.rpartition(":")[2] == str(os.getpid()):
        return
    name = f"{above}/{secrets.token_hex(4)}:{os.getpid()}"
    os.environ.pop(VARIABLE, None)  # the keeper belongs to nobody
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, name],
        stdin=subprocess.PIPE,  # held until this process ends, and by nobody else
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    atexit.register(keeper.communicate)  # the pipe is closed, and nothing is left when we are gone
    os.environ[VARIABLE] = name
    sys.addaudithook(_name_those_with_an_environment_of_their_own)


def _name_those_with_an_environment_of_their_own(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and isinstance(environment := arguments[3], dict):
        environment.setdefault(VARIABLE, os.environ[VARIABLE])


def members(name: str) -> Iterator[int]:
    """The processes that bear this name, and those of runs inside that run."""
    wanted = f"{VARIABLE}={name}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone, or somebody else's
            if any(
                line == wanted or line.startswith(wanted + b"/")
                for line in (folder / "environ").read_bytes().split(b"\0")
            ):
                yield int(folder.name)


def end(name: str) -> None:
    """End all of them: first politely, and for good after GRACE_S."""
    asked: set[int] = set()
    deadline = time.monotonic() + GRACE_S
    while found := list(members(name)):
        late = time.monotonic() > deadline
        for process in found:
            if late or process not in asked:
                asked.add(process)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL if late else signal.SIGTERM)
        threading.Event().wait(PAUSE_S)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end(sys.argv[1])
