"""The journal of a worker, which the check can read even if the worker was killed.

It has two lines per batch: the decision about each flight, written before the commit, and the
outcome of the commit, written after it. A batch without a second line is *in doubt*: its worker was
killed in between. So is a batch whose commit failed: perhaps only the answer was lost.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

Verdict = Literal["accept", "reject", "release"]


class Decision(NamedTuple):
    """The decision about one flight at one delivery."""

    flight: int
    partition: int
    verdict: Verdict
    delivery_count: int


class Journal:
    """The writer. Lines reach the operating system at once, so kill -9 loses none of them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._batch = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Write the decisions, before the commit."""
        self._batch += 1
        by_partition: dict[int, list[Decision]] = defaultdict(list)
        for decision in decisions:
            by_partition[decision.partition].append(decision)
        self._write({"batch": self._batch, "decisions": by_partition})

    def confirm(self, outcomes: Mapping[int, str | None]) -> None:
        """Write the outcomes, after the commit: per partition the name of its error, or None."""
        self._write({"batch": self._batch, "outcomes": outcomes})

    def _write(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps({"at": time.time(), **line}) + "\n")


@dataclass(slots=True)
class Batch:
    """One worker's decisions about flights of one partition. Times are seconds since 1970."""

    decisions: list[Decision]
    decided_at: float
    confirmed_at: float | None = None
    """None: in doubt."""


def read_journals(folder: Path) -> list[Batch]:
    """All that the workers have written."""
    return [batch for path in sorted(folder.glob("*.journal")) for batch in _read(path)]


def _read(path: Path) -> Iterator[Batch]:
    current: dict[str, Batch] = {}
    for text in path.read_bytes().splitlines(keepends=True):
        if not text.endswith(b"\n"):
            return  # the worker was killed as it wrote this, before its commit
        line = json.loads(text)
        if "decisions" in line:
            current = {
                partition: Batch([Decision(*one) for one in decisions], line["at"])
                for partition, decisions in line["decisions"].items()
            }
            yield from current.values()
        else:
            for partition, error in line["outcomes"].items():
                if error is None and partition in current:
                    current[partition].confirmed_at = line["at"]
