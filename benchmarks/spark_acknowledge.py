"""The cost of acknowledging every record: the sink ``kafka-share`` with ``accept`` for each record,
compared with a query whose batches are acknowledged as a whole (into ``noop``).

availableNow over 20 batches of records of 100 B, local[2]. The figure is the median time of a
batch.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import SHARE, drained

SIZES = (10_000, 100_000)
BATCHES = 20
BATCHES_MIN = 6


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    batches = max(BATCHES_MIN, round(BATCHES * bench.scale.factor))
    found: dict[str, float] = {}
    for batch in SIZES:
        records = batches * batch
        topic = bench.loaded_topic(records)
        with tempfile.TemporaryDirectory() as folder:
            size = {"topic": topic, "maxOffsetsPerTrigger": batch}
            asked = [size, {**size, "sink": "accept", "ackLocation": folder}]
            implicit, explicit = drained(bench, SHARE, asked, cores=2)
        for key, result in (("implicit", implicit), ("explicit", explicit)):
            if result["rows"] != records:
                raise RuntimeError(f"{key}: {result['rows']} rows")
            found[_key(key, batch)] = _batch_ms(result)
        found[_key("ratio", batch)] = (
            found[_key("explicit", batch)] / found[_key("implicit", batch)]
        )
    return found


def _batch_ms(result: dict[str, Any]) -> float:
    """The median, without the first batch, in which Spark's processes start."""
    times: list[float] = [batch["triggerExecution"] for batch in result["batches"][1:]]
    return statistics.median(times)


def _key(what: str, batch: int) -> str:
    return f"spark-ack-{what}-{batch}"


def _rows() -> tuple[Row, ...]:
    rows: list[Row] = []
    for batch in SIZES:
        where = f"Spark, batches of {batch:,} records"
        rows += [
            Row(key=_key("implicit", batch), title=f"{where}, acknowledged as a whole", unit="ms"),
            Row(key=_key("explicit", batch), title=f"{where}, each record by the sink", unit="ms"),
            Row(key=_key("ratio", batch), title=f"{where}: ratio", unit="×", target="≤ 1.5 ×"),
        ]
    return tuple(rows)


BENCHMARK = Benchmark(name="spark-acknowledge", rows=_rows(), run=run, fresh_server=True)
