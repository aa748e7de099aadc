"""Reading by assignment with librdkafka's Consumer from Python: plain Fetch, no group.

1 M records of 100 B in 4 partitions; the rate runs from the first batch received to the last.
"""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.share_client import Stalled
from tests.servers.admin import SILENT

RATE = "assign"
CPU = "assign-cpu"
RECORDS = 1_000_000
BATCH = 10_000
STALL_SECONDS = 30


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
        seen = len(consume(consumer, 1))
        first = last = time.perf_counter()
        while seen < records:
            seen += len(consume(consumer, min(BATCH, records - seen)))
            last = time.perf_counter()
        return (seen - 1) / (last - first)
    finally:
        consumer.close()


def consume(consumer: Consumer, limit: int) -> list[Message]:
    """The next records, at least one. Raises KafkaException if one is an error, or Stalled."""
    messages = consumer.consume(limit, timeout=STALL_SECONDS)
    if not messages:
        raise Stalled(f"no record in {STALL_SECONDS} s")
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
    return messages


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
