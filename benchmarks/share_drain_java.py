"""Draining a share group with Java's ShareConsumerPerformance, implicit acknowledgement.

1 M records of 100 B in 4 partitions, one consumer. The rate comes from the tool's own reports, from
its first report with records to its last. So it leaves out joining the group, which takes 5 s with
Apache Kafka.
"""

from __future__ import annotations

from benchmarks.benchmark import Bench, Benchmark, Row

RATE = "share-java"
CPU = "share-java-cpu"
RECORDS = 1_000_000


def run(bench: Bench) -> dict[str, float]:
    records = bench.scale.records(RECORDS)
    topic, group = bench.loaded_topic(records), bench.new_group()
    found: dict[str, float] = {}
    with bench.cpu_per_record(found, CPU, records):
        drained = bench.tools.share_drain(topic, group, records)
    return {**found, RATE: drained.records_per_second}


BENCHMARK = Benchmark(
    name="share-java",
    rows=(
        Row(
            key=RATE,
            title="share drain, implicit (Java)",
            unit="records/s",
            higher_is_better=True,
            target="≥ 1.5 × durable, ≥ 2 × system",
        ),
        Row(key=CPU, title="share drain, implicit (Java): server CPU per record", unit="µs"),
    ),
    run=run,
)
