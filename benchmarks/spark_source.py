"""The Spark source ``kafka-share`` against Spark's own Kafka source: rows/s of 100 B records.

Both have the same session settings, the same data in 4 partitions and the same trigger
(availableNow). The time runs from start to end of the query, with acknowledgement and commit. Each
source runs in its own session, after a warm-up query. Both run on PySpark 4.2.0, which is installed
beside this environment's newer one. ``noop`` discards the rows, Parquet writes them. "Whole" leaves
the size of a batch to the source: all 5 M records on our broker; on Apache Kafka at most 40,000,
because its lock limit allows no more in flight in 4 partitions. The third figure is the ratio of
the two on the same server in the same round.
"""

from __future__ import annotations

from typing import Any

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import KAFKA, SHARE, drained

RECORDS = 5_000_000
BATCH = 100_000
CORES = 2
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "noop": ("noop, whole", {"sink": "noop"}),
    "parquet": ("Parquet, whole", {"sink": "parquet"}),
    "noop-batches": ("noop, 100,000 a batch", {"sink": "noop", "maxOffsetsPerTrigger": BATCH}),
    "parquet-batches": (
        "Parquet, 100,000 a batch",
        {"sink": "parquet", "maxOffsetsPerTrigger": BATCH},
    ),
}
TARGET = "≥ 1.2 on ours, ≥ 0.8 on Kafka"


def measure(bench: Bench) -> dict[str, float]:
    """Measure every case with both sources."""
    bench.server.prepare()
    bench.server.start()
    records = bench.scale.records(RECORDS)
    topic = bench.loaded_topic(records)
    rates: dict[str, float] = {}
    for kind in (SHARE, KAFKA):
        asked = [{"topic": topic, **case} for _, case in CASES.values()]
        results = drained(bench, kind, asked, cores=CORES)
        for name, result in zip(CASES, results, strict=True):
            if result["rows"] != records:
                raise RuntimeError(f"{kind}, {name}: {result['rows']} rows")
            rates[_key(kind, name)] = records / result["seconds"]
    for name in CASES:
        ours, theirs = (rates[_key(kind, name)] for kind in (SHARE, KAFKA))
        rates[_key("ratio", name)] = ours / theirs
    return rates


def _key(kind: str, case: str) -> str:
    return f"spark-{kind.removeprefix('kafka-')}-{case}-{CORES}"


def _rows() -> tuple[Row, ...]:
    rows: list[Row] = []
    for name, (title, _) in CASES.items():
        where = f"Spark local[{CORES}], {title}"
        for kind, what in ((SHARE, "kafka-share"), (KAFKA, "Spark's own Kafka source")):
            key = _key(kind, name)
            rows.append(
                Row(key=key, title=f"{where}: {what}", unit="rows/s", higher_is_better=True)
            )
        rows.append(
            Row(
                key=_key("ratio", name),
                title=f"{where}: ratio",
                unit="times",
                higher_is_better=True,
                target=TARGET,
            )
        )
    return tuple(rows)


BENCHMARK = Benchmark(name="spark-source", rows=_rows(), run=measure, fresh_server=True)
