"""Reading by assignment with librdkafka's Consumer from Python: plain Fetch, no group.

1 M records of 100 B in 4 partitions; the rate runs from the first batch received to the last.
"""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.benchmark import Bench, Benchmark, Row
from tests.servers.admin import SILENT

RATE = "assign"
CPU = "assign-cpu"
RECORDS = 1_000_000
BATCH = 10_000


class Stalled(Exception):
    """No record came for half a minute, although the topic holds more."""


def run(bench: Bench) -> dict[str, float]:
    records = bench.scale.records(RECORDS)
    topic = bench.loaded_topic(records)
    found: dict[str, float] = {}
    with bench.cpu_per_record(found, CPU, records):
        found[RATE] = read(bench.bootstrap, topic, records)
    return found


def read(bootstrap: str, topic: str, records: int) -> float:
    """Records per second between the first batch and the last."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, **SILENT})
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(4)])
        seen = len(consumer.consume(1, timeout=30))
        first = last = time.perf_counter()
        while seen < records:
            messages = consumer.consume(min(BATCH, records - seen), timeout=30)
            if not messages:
                raise Stalled(f"{seen} of {records} records came")
            seen += len(messages)
            last = time.perf_counter()
        return (seen - 1) / (last - first)
    finally:
        consumer.close()


BENCHMARK = Benchmark(
    name="assign",
    rows=(
        Row(
            key=RATE,
            title="consumer by assign (librdkafka)",
            unit="records/s",
            higher_is_better=True,
        ),
        Row(key=CPU, title="consumer by assign: server CPU per record", unit="µs"),
    ),
    run=run,
)
