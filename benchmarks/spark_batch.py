"""The fixed cost of a batch: the times of small and of large batches, with both sources, and the
line through the two.

availableNow into ``noop``, local[2], 4 partitions, records of 100 B. A time is the median over the
batches of a query, without the first one. The small batch has as many tasks as the large one.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import KAFKA, SHARE, drained

SMALL, LARGE = 4_000, 100_000
BATCHES = 20
BATCHES_MIN = 6
NAMES = {SHARE: "kafka-share", KAFKA: "Spark's own Kafka source"}


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    batches = max(BATCHES_MIN, round(BATCHES * bench.scale.factor))
    found: dict[str, float] = {}
    topics = {size: bench.loaded_topic(batches * size) for size in (SMALL, LARGE)}
    for kind in (SHARE, KAFKA):
        asked = [{"topic": t, "maxOffsetsPerTrigger": size} for size, t in topics.items()]
        small, large = (_batch_ms(result) for result in drained(bench, kind, asked, cores=2))
        record_us = (large - small) / (LARGE - SMALL) * 1000
        found[_key(kind, "record")] = record_us
        found[_key(kind, "fixed")] = small - record_us * SMALL / 1000
        found[_key(kind, "large")] = large
    found[_key("ratio", "large")] = found[_key(KAFKA, "large")] / found[_key(SHARE, "large")]
    return found


def _batch_ms(result: dict[str, Any]) -> float:
    """The median, without the first batch, in which processes start."""
    times: list[float] = [batch["triggerExecution"] for batch in result["batches"][1:]]
    return statistics.median(times)


def _key(kind: str, what: str) -> str:
    return f"spark-batch-{kind.removeprefix('kafka-')}-{what}"


def _rows() -> tuple[Row, ...]:
    rows: list[Row] = []
    for what, title, unit in (
        ("fixed", "Spark, what a batch costs before its first record", "ms"),
        ("record", "Spark, what a record of a batch costs", "µs"),
        ("large", "Spark, batch of 100,000", "ms"),
    ):
        for kind, name in NAMES.items():
            target = "≤ 124 ms" if (what, kind) == ("fixed", SHARE) else ""
            rows.append(
                Row(key=_key(kind, what), title=f"{title}: {name}", unit=unit, target=target)
            )
    title = "Spark, batch of 100,000: theirs ÷ ours"
    ratio = Row(
        key=_key("ratio", "large"),
        title=title,
        unit="times",
        higher_is_better=True,
        target="≥ 1.2 on ours",
    )
    return (*rows, ratio)


BENCHMARK = Benchmark(name="spark-batch", rows=_rows(), run=run, fresh_server=True)
