"""Producing with Java's ProducerPerformance: its own records/s, 4 partitions, idempotent, acks=all.

Batches of 64 KiB, linger 5 ms. The figure leaves out the start of the tool, but includes the
warm-up of its JVM, which is the same for every server.
"""

from __future__ import annotations

from benchmarks.benchmark import Bench, Benchmark, Row

SMALL, SMALL_RECORDS = 100, 1_000_000
LARGE, LARGE_RECORDS = 1024, 300_000


def run(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    for size, count in ((SMALL, SMALL_RECORDS), (LARGE, LARGE_RECORDS)):
        records = bench.scale.records(count)
        topic = bench.new_topic()
        with bench.cpu_per_record(found, f"produce-{size}-cpu", records):
            produced = bench.tools.produce(topic, records, record_bytes=size)
        found[f"produce-{size}"] = produced.records_per_second
        bench.admin.delete_topic(topic)
    return found


def rows(size: int, name: str) -> tuple[Row, Row]:
    key, title = f"produce-{size}", f"produce {name} (Java)"
    rate = Row(key=key, title=title, unit="records/s", higher_is_better=True, target="≥ 0.7 ×")
    return rate, Row(key=f"{key}-cpu", title=f"{title}: server CPU per record", unit="µs")


BENCHMARK = Benchmark(name="produce", rows=(*rows(SMALL, "100 B"), *rows(LARGE, "1 KiB")), run=run)
