"""Explicit acknowledgement in three patterns, with librdkafka's ShareConsumer from Python.

All: every record is accepted. Tenth: every 10th record is released at its first delivery and
accepted at the second one. Alternate: the same for every second record. 300,000 records of 100 B in
4 partitions, one consumer. The rate counts accepted records, from the first batch received to the
last record accepted.
"""

from __future__ import annotations

import time

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.share_client import next_records, share_consumer

RECORDS = 300_000
RELEASED = {"tenth": 10, "alternate": 2}  # all accepted: share_drain_confluent


def run(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    records = bench.scale.records(RECORDS)
    for name, every in RELEASED.items():
        topic, group = bench.loaded_topic(records), bench.new_group()
        with (
            bench.cpu_per_record(found, f"pattern-{name}-cpu", records),
            share_consumer(bench.bootstrap, group, topic, explicit=True) as consumer,
        ):
            found[f"pattern-{name}"] = drain(consumer, records, every)
    return found


def drain(consumer: ShareConsumer, records: int, every: int) -> float:
    """Accept all records; returns accepted records per second."""
    accepted = 0
    first = 0.0
    while accepted < records:
        messages = next_records(consumer)
        first = first or time.perf_counter()
        accepted += sum(answer(consumer, message, every) for message in messages)
    consumer.commit_sync(30)
    return accepted / (time.perf_counter() - first)


def answer(consumer: ShareConsumer, message: Message, every: int) -> bool:
    """Release the message if it is due and this is its first delivery, else accept it. Returns
    whether it was accepted.
    """
    offset = message.offset()
    release = offset is not None and offset % every == 0 and message.delivery_count() == 1
    consumer.acknowledge(message, AcknowledgeType.RELEASE if release else AcknowledgeType.ACCEPT)
    return not release


def rows(name: str, title: str) -> tuple[Row, Row]:
    title = f"share drain, {title} released once (librdkafka)"
    key = f"pattern-{name}"
    return (
        Row(key=key, title=title, unit="records/s", higher_is_better=True, target="≥ 1.2 ×"),
        Row(key=f"{key}-cpu", title=f"{title}: server CPU per record", unit="µs"),
    )


BENCHMARK = Benchmark(
    name="patterns",
    rows=(*rows("tenth", "every 10th"), *rows("alternate", "every 2nd")),
    run=run,
)
