"""Record produced → seen in ``foreachBatch``: 100 records a second, Spark's default trigger.

Java's ProducerPerformance stamps the records (CreateTime); the function given to ``foreachBatch``
collects the timestamps of its batch and looks at the clock. The first 300 records warm up.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import KAFKA, SHARE, Queries, run_queries

RATE = 100
SECONDS = 20
WARM_UP = 300
KEYS = {SHARE: "spark-latency-share", KAFKA: "spark-latency-kafka"}
MORE = "spark-latency-more"


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    found: dict[str, float] = {}
    for kind, key in KEYS.items():
        latencies = _latencies(bench, kind, round(RATE * bench.scale.seconds(SECONDS)))
        found[key] = statistics.median(latencies)
        found[f"{key}-p99"] = statistics.quantiles(latencies, n=100)[98]
    return {**found, MORE: found[KEYS[SHARE]] - found[KEYS[KAFKA]]}


def _latencies(bench: Bench, kind: str, records: int) -> list[float]:
    """The latency of each record in milliseconds."""
    topic = bench.new_topic()
    bench.tools.produce(topic, 1)
    seen: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        query = Queries(bench, kind, Path(folder)).query(topic, "watch")
        query |= {"before": 1, "records": WARM_UP + records}
        for result in run_queries([query], cores=2):
            if result.get("started"):
                bench.tools.produce(topic, WARM_UP + records, throughput=RATE)
            else:
                seen = result["latencies"]
    return [seconds * 1000 for seconds in seen[WARM_UP : WARM_UP + records]]


def _rows() -> tuple[Row, ...]:
    names = {SHARE: "kafka-share", KAFKA: "Spark's own Kafka source"}
    rows = [
        Row(
            key=key + suffix,
            title=f"Spark micro-batches, produced to seen, {RATE}/s, {share}: {names[kind]}",
            unit="ms",
        )
        for kind, key in KEYS.items()
        for suffix, share in (("", "p50"), ("-p99", "p99"))
    ]
    title = "Spark micro-batches, p50: kafka-share takes longer by"
    return (*rows, Row(key=MORE, title=title, unit="ms", target="≤ 50 ms"))


BENCHMARK = Benchmark(name="spark-latency", rows=_rows(), run=run, fresh_server=True)
