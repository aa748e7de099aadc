"""What a process writes down of what it asks for and is told: one line for each, in a file.

A line is one ``write`` to a file that is only appended to, so a killed process leaves whole lines.
Times are of the system's monotonic clock, the same one for all processes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SUFFIX = ".journal"


class Line(NamedTuple):
    """One thing that happened."""

    at_ns: int
    who: str
    life: int
    """A process that is started again has another one."""
    what: str
    more: dict[str, Any]


class Journal:
    """The journal of one life of one process."""

    def __init__(self, folder: Path, who: str, life: int) -> None:
        self._file = os.open(
            folder / f"{who}{SUFFIX}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )
        self.who = who
        self.life = life
        self.name = f"{who}.{life}"

    def note(self, what: str, **more: Any) -> None:
        """Write a line."""
        line = [time.monotonic_ns(), self.who, self.life, what, more]
        os.write(self._file, json.dumps(line).encode() + b"\n")


class Tail:
    """Reads what is new in the journals of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def lines(self) -> Iterator[Line]:
        """The whole lines that were not read yet, file by file."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data.rfind(b"\n") + 1
            self._read[path] = self._read.get(path, 0) + whole
            for text in data[:whole].splitlines():
                yield Line(*json.loads(text))


def all_lines(folder: Path) -> list[Line]:
    """Everything in the journals of a folder, by time."""
    return sorted(Tail(folder).lines(), key=lambda line: line.at_ns)
