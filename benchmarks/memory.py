"""Resident memory of the server process, when it has just become ready, and after 1 M records.

The records are produced by Java's ProducerPerformance and drained by Java's
ShareConsumerPerformance. Apache Kafka's heap is its start script's 1 GB.
"""

from __future__ import annotations

from benchmarks.benchmark import Bench, Benchmark, Row

REST = "memory-rest"
DRAINED = "memory-drained"
RECORDS = 1_000_000
MIB = 1 << 20


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    rest = bench.server.usage().memory_bytes
    records = bench.scale.records(RECORDS)
    topic, group = bench.loaded_topic(records), bench.new_group()
    bench.tools.share_drain(topic, group, records)
    return {REST: rest / MIB, DRAINED: bench.server.usage().memory_bytes / MIB}


BENCHMARK = Benchmark(
    name="memory",
    rows=(
        Row(key=REST, title="memory at rest", unit="MiB"),
        Row(key=DRAINED, title="memory after a drain of 1 M", unit="MiB", target="< 120 MiB"),
    ),
    run=run,
    fresh_server=True,
)
