"""As ``spark-source-2`` into ``noop``, over a topic of 64 partitions.

Apache Kafka allows 10,000 records in flight in each partition. With 64 partitions that is enough
for batches of the size that Spark needs.
"""

from __future__ import annotations

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import KAFKA, SHARE, drained
from benchmarks.spark_source import RECORDS, TARGET

PARTITIONS = 64
OURS, THEIRS, RATIO = "spark-64-share", "spark-64-kafka", "spark-64-ratio"
WHERE = f"Spark local[2], noop, {PARTITIONS} partitions"


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    records = bench.scale.records(RECORDS)
    topic = bench.loaded_topic(records, partitions=PARTITIONS)
    rates = {}
    for kind, key in ((SHARE, OURS), (KAFKA, THEIRS)):
        [result] = drained(bench, kind, [{"topic": topic}], cores=2)
        if result["rows"] != records:
            raise RuntimeError(f"{kind}: {result['rows']} rows")
        rates[key] = records / result["seconds"]
    return {**rates, RATIO: rates[OURS] / rates[THEIRS]}


BENCHMARK = Benchmark(
    name="spark-many-partitions",
    rows=(
        Row(key=OURS, title=f"{WHERE}: kafka-share", unit="rows/s", higher_is_better=True),
        Row(
            key=THEIRS,
            title=f"{WHERE}: Spark's own Kafka source",
            unit="rows/s",
            higher_is_better=True,
        ),
        Row(key=RATIO, title=f"{WHERE}: ratio", unit="times", higher_is_better=True, target=TARGET),
    ),
    run=run,
    fresh_server=True,
)
