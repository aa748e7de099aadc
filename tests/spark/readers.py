"""The stream reader called as Spark calls it, without Spark."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from sharegroup.arrow.schema import COLUMNS
from sharegroup.spark.data_source import ShareStreamReader
from tests.servers.running import RunningServer
from tests.spark.conftest import source_options

FIELDS = [
    (name, kind) for name, kind in COLUMNS.items() if name not in ("headers", "timestampType")
]
INSTEAD = {"subscribe": "subscribePattern", "startingOffsets": "startingTimestamp"}
SECONDS = 800


class Stream:
    """One query: its reader, and how far Spark is."""

    def __init__(self, server: RunningServer, group: str, **options: str) -> None:
        given = source_options(server, group, pollTimeoutMs="50", **options)
        for ours, instead in INSTEAD.items():
            if instead in options:
                del given[ours]
        self.reader = ShareStreamReader(given, FIELDS)
        self.offset: dict[str, Any] = self.reader.initialOffset()

    def next(self, limit: int | None = None) -> dict[str, Any] | None:
        """One call of ``latestOffset``: the new offset, or None. Its batch is not run yet."""
        read_limit: ReadLimit = ReadAllAvailable() if limit is None else ReadMaxRows(limit)
        end = self.reader.latestOffset(self.offset, read_limit)
        if end == self.offset:
            return None
        if self.offset["e"] > 0:
            self.reader.commit(self.offset)
        return end

    def run(self, end: dict[str, Any]) -> Counter[bytes]:
        """The batch ``end`` as tasks read it."""
        found: Counter[bytes] = Counter()
        for task in self.reader.partitions(self.offset, end):
            for batch in self.reader.read(task):
                found.update(batch.column("value").to_pylist())
        self.offset = end
        return found

    def batch(self, limit: int | None = None) -> Counter[bytes]:
        """The next batch."""
        ends: list[dict[str, Any]] = []

        def came() -> bool:
            end = self.next(limit)
            ends.extend([] if end is None else [end])
            return end is not None

        until(came)
        return self.run(ends[0])

    def values(self, count: int) -> Counter[bytes]:
        """Batches until there are so many records, and the last one is settled."""
        found: Counter[bytes] = Counter()
        while found.total() < count:
            found += self.batch()
        self.next()
        return found

    def report(self) -> dict[str, Any]:
        """``reportLatestOffset``."""
        report = self.reader.reportLatestOffset()
        assert report is not None
        return report

    def stop(self) -> None:
        self.reader.stop()


def until(condition: Callable[[], bool]) -> None:
    """Return when it is true; raises TimeoutError."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not become true")
        threading.Event().wait(0.01)


def produce_singly(
    server: RunningServer, topic: str, values: Iterable[bytes], partition: int = 0, at_ms: int = 0
) -> None:
    """Each value in a record batch of its own: brokers acquire whole record batches. In this order,
    also when a batch is sent again because the topic's leader was not there yet.

    Args:
        at_ms: the records' time; 0: now.
    """
    settings = {"batch.num.messages": 1, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": server.bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, partition=partition, timestamp=at_ms)
        producer.poll(0)
    left = producer.flush(SECONDS)
    assert left == 0, f"{left} records were not acknowledged in time"
