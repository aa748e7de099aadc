"""Draining a share group with librdkafka's ShareConsumer from Python.

Implicit: the next poll accepts all. Explicit: `acknowledge` is called for every record, and the
next poll sends it. Records of 100 B in 4 partitions, one consumer. The rate runs from the first
batch received to the last, without joining the group. The client limits the rate: the server's CPU
per record shows how much capacity the server has left.
"""

from __future__ import annotations

import time

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.share_client import next_records, share_consumer

RECORDS = {"implicit": 1_000_000, "explicit": 300_000}


def run(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    for mode, count in RECORDS.items():
        records = bench.scale.records(count)
        topic, group = bench.loaded_topic(records), bench.new_group()
        with bench.cpu_per_record(found, f"share-{mode}-cpu", records):
            rate = drain(bench.bootstrap, topic, group, records, explicit=mode == "explicit")
        found[f"share-{mode}"] = rate
    return found


def drain(bootstrap: str, topic: str, group: str, records: int, *, explicit: bool) -> float:
    """Records per second from the first batch until `records` records were received."""
    with share_consumer(bootstrap, group, topic, explicit=explicit) as consumer:
        seen = first_batch = 0
        first = last = 0.0
        while seen < records:
            messages = next_records(consumer)
            last = time.perf_counter()
            if not seen:
                first, first_batch = last, len(messages)
            seen += len(messages)
            if explicit:
                for message in messages:
                    consumer.acknowledge(message)
        consumer.commit_sync(30)
    return (seen - first_batch) / (last - first)


def rows(mode: str, name: str) -> tuple[Row, Row]:
    key, title = f"share-{mode}", f"share drain, {name} (librdkafka)"
    rate = Row(key=key, title=title, unit="records/s", higher_is_better=True, target="≥ 1.0 ×")
    cpu = Row(
        key=f"{key}-cpu", title=f"{title}: server CPU per record", unit="µs", target="≤ 0.5 ×"
    )
    return rate, cpu


BENCHMARK = Benchmark(
    name="share-librdkafka",
    rows=(*rows("implicit", "implicit"), *rows("explicit", "explicit per record")),
    run=run,
)
