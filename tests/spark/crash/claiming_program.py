"""A query in claim mode as a process that kills itself with SIGKILL at a step of its claims.

Arguments: bootstrap servers, folder, seed of the lane, the step (``-`` for none), and at which
claim. It runs Spark's order of calls (:mod:`tests.spark.crash.engine`) over a checkpoint on disk,
until the queue is empty and every record is in the sink.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from sharegroup.arrow.schema import COLUMNS, column_names
from sharegroup.spark.data_source import ShareStreamReader
from tests.spark.crash.checker import sink_results
from tests.spark.crash.engine import Checkpoint, Engine, Point, Rows
from tests.spark.crash.lane import Lane, LaneFolder, Mode

PARTITIONS = 2
PER_BATCH = 100
LIMIT = 500
LOCKS = 100
END_SECONDS = 200
"""A member that was killed keeps its partitions until its session ends."""
SYNCS_PER_CLAIM = 2
SYNCS_BEFORE_CLAIMS = 4


class Step(StrEnum):
    """Of a claim; the folder's own two files are written before the first one."""

    WRITTEN = "the file is written and not synced"
    SYNCED = "the file is synced and has no name yet"
    NAMED = "the file has its name, the folder is not synced"
    DURABLE = "the claim is durable, the broker does not know of it"
    ACCEPTED = "the broker has accepted it, the next one is written"


def lane_of(seed: int) -> Lane:
    """The lane of this test; its records are numbered by the checker's rules."""
    return Lane(seed=seed, mode=Mode.CLAIM, partitions=PARTITIONS, per_batch=PER_BATCH, strikes=())


def kill_at(step: Step, claim: int) -> None:
    """From now on: SIGKILL to this process at that step of that claim."""
    sync = os.fsync
    first = SYNCS_BEFORE_CLAIMS + SYNCS_PER_CLAIM * (claim - 1) + 1
    number, before = {
        Step.WRITTEN: (first, True),
        Step.SYNCED: (first, False),
        Step.NAMED: (first + 1, True),
        Step.DURABLE: (first + 1, False),
        Step.ACCEPTED: (first + 2, True),
    }[step]
    seen = [0]

    def killing(descriptor: Any) -> None:
        seen[0] += 1
        if seen[0] == number and before:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(descriptor)
        if seen[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = killing


class Offsets(dict[int, Any]):
    """Spark's offset log: a file for each batch."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__({int(f.name): json.loads(f.read_text()) for f in folder.glob("[0-9]*")})
        self._folder = folder

    def __setitem__(self, batch: int, offset: Any) -> None:
        _put(self._folder / str(batch), json.dumps(offset))
        super().__setitem__(batch, offset)


class Commits(set[int]):
    """Spark's commit log."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(int(file.name) for file in folder.glob("[0-9]*"))
        self._folder = folder

    def add(self, batch: int) -> None:
        _put(self._folder / str(batch), "")
        super().add(batch)


def engine(
    bootstrap: str, lane: Lane, folder: LaneFolder, passed: Callable[[int, Point], None]
) -> Engine:
    """The query over its files."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.group.id": lane.name,
        "subscribe": lane.name,
        "startingOffsets": "earliest",
        "recordLocksPerPartition": str(LOCKS),
        "pollTimeoutMs": "50",
        "claimLocation": str(folder.claims),
    }
    fields = [(name, COLUMNS[name]) for name in column_names(include_headers=False)]
    checkpoint = Checkpoint(
        Offsets(folder.checkpoint / "offsets"), Commits(folder.checkpoint / "commits")
    )

    def write(batch: int, rows: Rows) -> None:
        found = [[offset * PARTITIONS + p, p, offset, count, "accept"] for p, offset, count in rows]
        text = json.dumps(found)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        _put(folder.sink / f"{batch}-{digest}.json", text)

    return Engine(ShareStreamReader(options, fields), checkpoint, write, LIMIT, passed)


def run(bootstrap: str, lane: Lane, folder: LaneFolder) -> None:
    """Until the sink has every record, and Spark has told the source so; raises AssertionError when
    it does not come to that in time."""
    query = engine(bootstrap, lane, folder, lambda batch, point: None)
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        if not query.step() and len(sink_results(lane, folder.sink)[0]) >= lane.records:
            query.reader.stop()
            return
    raise AssertionError(f"{lane.name} did not end")


def _put(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}")
    scratch.write_text(text)
    scratch.replace(path)


def main(bootstrap: str, folder: str, seed: str, step: str, claim: str) -> None:
    lane = lane_of(int(seed))
    if step != "-":
        kill_at(Step[step], int(claim))
    run(bootstrap, lane, LaneFolder(Path(folder), lane))


if __name__ == "__main__":
    main(*sys.argv[1:])
