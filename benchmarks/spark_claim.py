"""Claim mode of the Spark source against Spark's own Kafka source: rows/s of 100 B records.

As :mod:`benchmarks.spark_source` on two cores into ``noop``. The queries in claim mode run with the
default lock limit of a group (2,000) and with the highest of Apache Kafka (10,000). Each source
runs in its own session. The ratio is that of the same server in the same round.
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import KAFKA, SHARE, drained

RECORDS = 5_000_000
BATCH = 100_000
SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": ("in one batch", {}),
    "batches": ("100,000 a batch", {"maxOffsetsPerTrigger": BATCH}),
}
LOCKS = (2_000, 10_000)
TARGET = "≥ 0.8"


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    records = bench.scale.records(RECORDS)
    topic = bench.loaded_topic(records)
    cases = [(size, locks) for size in SIZES for locks in LOCKS]
    with tempfile.TemporaryDirectory() as folder:
        asked = [
            {
                "topic": topic,
                "claimLocation": f"{folder}/{size}-{locks}",
                "recordLocksPerPartition": locks,
                **SIZES[size][1],
            }
            for size, locks in cases
        ]
        claimed = drained(bench, SHARE, asked, cores=2)
    own = drained(bench, KAFKA, [{"topic": topic, **more} for _, more in SIZES.values()], cores=2)
    found: dict[str, float] = {}
    for size, result in zip(SIZES, own, strict=True):
        found[_key("own", size)] = _rate(result, records)
    for (size, locks), result in zip(cases, claimed, strict=True):
        found[_key(f"{locks}", size)] = _rate(result, records)
        found[_key(f"{locks}-ratio", size)] = _rate(result, records) / found[_key("own", size)]
    return found


def _rate(result: dict[str, Any], records: int) -> float:
    if result["rows"] != records:
        raise RuntimeError(f"{result['rows']} rows and not {records}")
    rate: float = records / result["seconds"]
    return rate


def _key(what: str, size: str) -> str:
    return f"spark-claim-{size}-{what}"


def _rows() -> tuple[Row, ...]:
    rows: list[Row] = []
    for size, (title, _) in SIZES.items():
        where = f"Spark local[2], noop, {title}"
        own = f"{where}: Spark's own Kafka source"
        rows.append(Row(key=_key("own", size), title=own, unit="rows/s", higher_is_better=True))
        for locks in LOCKS:
            claims = f"{where}: kafka-share, claims, {locks:,} locks"
            rows += [
                Row(key=_key(f"{locks}", size), title=claims, unit="rows/s", higher_is_better=True),
                Row(
                    key=_key(f"{locks}-ratio", size),
                    title=f"{claims}: ratio",
                    unit="times",
                    higher_is_better=True,
                    target=TARGET,
                ),
            ]
    return tuple(rows)


BENCHMARK = Benchmark(name="spark-claim", rows=_rows(), run=run, fresh_server=True)
