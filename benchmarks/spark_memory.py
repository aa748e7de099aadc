"""Resident memory of the process of the Spark source, over 10 M records in one query.

availableNow into ``noop``, 100,000 records a batch. The figure for the n-th million is the most
memory that the process used while that million was read; `benchmarks.spark_pictures` draws them
all.
"""

from __future__ import annotations

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import SHARE, drained

RECORDS = 10_000_000
STEPS = 10
BATCH = 100_000
MIB = 1 << 20


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    records = bench.scale.records(RECORDS)
    topic = bench.loaded_topic(records)
    case = {"topic": topic, "maxOffsetsPerTrigger": BATCH, "more": {"memory": True}}
    [result] = drained(bench, SHARE, [case], cores=2)
    if result["rows"] != records:
        raise RuntimeError(f"{result['rows']} rows")
    sizes: dict[str, float] = {}
    for rows, size in result["memory"]:
        step = key(min(STEPS, 1 + rows * STEPS // records))
        sizes[step] = max(sizes.get(step, 0), size / MIB)
    return sizes


def key(step: int) -> str:
    """The key of a figure in the samples. Only the first and the last figure have a row."""
    return f"spark-memory-{step}"


BENCHMARK = Benchmark(
    name="spark-memory",
    rows=(
        Row(key=key(1), title="Spark source process: memory in the 1st million", unit="MiB"),
        Row(
            key=key(STEPS),
            title="Spark source process: memory in the 10th million",
            unit="MiB",
            target="as in the 1st",
        ),
    ),
    run=run,
    fresh_server=True,
)
