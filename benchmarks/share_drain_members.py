"""Draining with 4 and 16 members on 4 partitions: Java's ShareConsumerPerformance, one thread and
one member each, implicit acknowledgement, 1 M records of 100 B.

The rate runs from any member's first report with records to the last report.
"""

from __future__ import annotations

from benchmarks.benchmark import Bench, Benchmark, Row

MEMBERS = (4, 16)  # one member: share_drain_java
RECORDS = 1_000_000


def run(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    records = bench.scale.records(RECORDS)
    for members in MEMBERS:
        topic, group = bench.loaded_topic(records), bench.new_group()
        with bench.cpu_per_record(found, f"members-{members}-cpu", records):
            drained = bench.tools.share_drain(topic, group, records, members=members)
        found[f"members-{members}"] = drained.records_per_second
    return found


def rows(members: int) -> tuple[Row, Row]:
    title = f"share drain, {members} members (Java)"
    return (
        Row(
            key=f"members-{members}",
            title=title,
            unit="records/s",
            higher_is_better=True,
            target="≥ 2 ×",
        ),
        Row(key=f"members-{members}-cpu", title=f"{title}: server CPU per record", unit="µs"),
    )


BENCHMARK = Benchmark(
    name="members", rows=tuple(row for members in MEMBERS for row in rows(members)), run=run
)
