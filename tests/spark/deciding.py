"""A query with an answer for every record: source and sink called as Spark calls them, without
Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from sharegroup.arrow.schema import COLUMNS, column_names
from sharegroup.spark.data_source import ShareStreamReader
from sharegroup.spark.sink.writer import ShareStreamWriter
from tests.servers.running import RunningServer
from tests.spark.conftest import source_options

SOURCE_FIELDS = [(name, COLUMNS[name]) for name in column_names(include_headers=False)]
SINK_FIELDS = [
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("ack", "string"),
    ("delay_ms", "bigint"),
    ("reason", "string"),
]
SINK_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "ack": pa.string(),
        "delay_ms": pa.int64(),
        "reason": pa.string(),
    }
)


class Answer(NamedTuple):
    """What the query says of a record."""

    word: str
    delay_ms: int | None = None
    reason: str | None = None


class Seen(NamedTuple):
    """A record as the query saw it."""

    value: bytes
    delivery_count: int


Decide = Callable[[Seen], Answer | None]
"""None: no row for the sink."""


class Query:
    """One run of a query over ``topic``; ``offset`` is its checkpoint."""

    def __init__(self, server: RunningServer, topic: str, ack_location: str, **more: str) -> None:
        wanted = {"pollTimeoutMs": "50", "ackLocation": ack_location, **more}
        self.reader = ShareStreamReader(source_options(server, topic, **wanted), SOURCE_FIELDS)
        self.sink = ShareStreamWriter({"ackLocation": ack_location}, SINK_FIELDS)
        self.offset: dict[str, Any] = self.reader.initialOffset()

    def next(self, limit: int | None = None) -> dict[str, Any] | None:
        """One call of ``latestOffset``, which settles the batch before: the new offset, or None."""
        read_limit: ReadLimit = ReadAllAvailable() if limit is None else ReadMaxRows(limit)
        end = self.reader.latestOffset(self.offset, read_limit)
        if end == self.offset:
            return None
        if self.offset["e"]:
            self.reader.commit(self.offset)
        if not end.get("r"):  # it opens the query or closes the run, and has no records
            assert self.reader.partitions(self.offset, end) == []
            self.offset = end
            return self.next(limit)
        return end

    def wait(self, limit: int | None = None) -> dict[str, Any]:
        """The next offset. Calls may find nothing, for as long as the broker gives the member no
        partitions: the test's own limit ends that."""
        while (end := self.next(limit)) is None:
            continue
        return end

    def run(self, end: dict[str, Any], decide: Decide) -> list[Seen]:
        """The batch ``end``: its tasks, and the sink's commit. It is not settled yet."""
        seen: list[Seen] = []
        messages = []
        for task in self.reader.partitions(self.offset, end):
            rows = [self._answered(batch, decide, seen) for batch in self.reader.read(task)]
            messages.append(self.sink.write(iter(rows)))
        self.sink.commit(messages, 0)
        return seen

    def batch(self, decide: Decide, limit: int | None = None) -> list[Seen]:
        """The next batch, committed."""
        end = self.wait(limit)
        seen = self.run(end, decide)
        self.offset = end
        return seen

    def available_now(self, decide: Decide) -> Counter[bytes]:
        """A run over what is there now, to its end."""
        self.reader.prepareForTriggerAvailableNow()
        found: Counter[bytes] = Counter()
        while (end := self.next()) is not None:
            found.update(one.value for one in self.run(end, decide))
            self.offset = end
        return found

    def values(self, decide: Decide, count: int) -> Counter[bytes]:
        """Batches until ``count`` records were seen, all of them settled."""
        found: Counter[bytes] = Counter()
        while found.total() < count:
            found.update(one.value for one in self.batch(decide))
        self.next()
        return found

    def report(self) -> dict[str, Any]:
        """``reportLatestOffset``."""
        report = self.reader.reportLatestOffset()
        assert report is not None
        return report

    @staticmethod
    def _answered(batch: pa.RecordBatch, decide: Decide, seen: list[Seen]) -> pa.RecordBatch:
        rows: list[dict[str, Any]] = []
        for row in batch.to_pylist():
            seen.append(Seen(row["value"], row["delivery_count"]))
            answer = decide(seen[-1])
            if answer is not None:
                place = {name: row[name] for name in ("topic", "partition", "offset")}
                said = dict(zip(("ack", "delay_ms", "reason"), answer, strict=True))
                rows.append({**place, **said})
        return pa.RecordBatch.from_pylist(rows, schema=SINK_SCHEMA)
