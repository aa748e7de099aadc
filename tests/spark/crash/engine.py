"""Spark's micro-batch engine reduced to the order in which it calls a source, so that a disaster
can be put between any two of its steps.

The order, and what is written when, is Spark 4.3's (MicroBatchExecution): the offset log before a
batch runs, the commit log after its sink has committed, the source's `commit` of a batch when the
next one is in the offset log. A batch in the offset log that is not in the commit log runs again
first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxRows

from sharegroup.spark.data_source import ShareStreamReader

Offset = dict[str, Any]
Rows = list[tuple[int, int, int]]
"""Partition, offset and delivery count of each record, sorted."""


class Point(StrEnum):
    """After which step something happens."""

    ACQUIRED = "the source has acquired, Spark has not written the offset"
    LOGGED = "the offset is in the log"
    PLANNED = "the tasks are planned"
    READ = "the tasks have read"
    WRITTEN = "the sink has the results"
    COMMITTED = "the batch is in the commit log"


class Crashed(Exception):
    """The program has ended here."""


class ConcurrentUpdate(Exception):
    """Another query has written this batch into the offset log."""


@dataclass
class Checkpoint:
    """Spark's two logs."""

    offsets: dict[int, Offset] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)

    def copied(self) -> Checkpoint:
        return copy.deepcopy(self)


class Engine:
    """One run of a query: `step` does one trigger.

    ``write(batch id, rows)`` is the sink; ``passed(batch id, point)`` may raise Crashed.
    """

    def __init__(
        self,
        reader: ShareStreamReader,
        checkpoint: Checkpoint,
        write: Callable[[int, Rows], None],
        limit: int,
        passed: Callable[[int, Point], None] = lambda batch, point: None,
    ) -> None:
        self.reader = reader
        self.checkpoint = checkpoint
        self._write = write
        self._limit = ReadMaxRows(limit)
        self._passed = passed
        self._newest: int | None = None  # known from the first trigger on, as in Spark

    def step(self) -> bool:
        """One trigger; whether there was a batch. Raises Crashed or ConcurrentUpdate."""
        if self._newest is None:
            self._newest = max(self.checkpoint.offsets, default=-1)
            if self._newest >= 0 and self._newest not in self.checkpoint.commits:
                self._run(self._newest)
                return True
        newest = self._newest
        start = self._offset(newest)
        end = self.reader.latestOffset(start, self._limit)
        if end == start:
            return False
        batch = newest + 1
        self._passed(batch, Point.ACQUIRED)
        if batch in self.checkpoint.offsets:
            raise ConcurrentUpdate(batch)
        self.checkpoint.offsets[batch] = end
        if newest >= 0:
            self.reader.commit(start)
        self._passed(batch, Point.LOGGED)
        self._newest = batch
        self._run(batch)
        return True

    def _run(self, batch: int) -> None:
        tasks = self.reader.partitions(self._offset(batch - 1), self._offset(batch))
        self._passed(batch, Point.PLANNED)
        rows: Rows = []
        for task in tasks:
            for part in self.reader.read(task):
                names = ("partition", "offset", "delivery_count")
                rows += zip(*(part.column(name).to_pylist() for name in names), strict=True)
        self._passed(batch, Point.READ)
        self._write(batch, sorted(rows))
        self._passed(batch, Point.WRITTEN)
        self.checkpoint.commits.add(batch)
        self._passed(batch, Point.COMMITTED)

    def _offset(self, batch: int) -> Offset:
        return self.checkpoint.offsets[batch] if batch >= 0 else self.reader.initialOffset()
