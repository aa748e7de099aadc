"""The Spark source ``kafka-share`` against Spark's own Kafka source: rows/s into ``noop``.

Same session settings, same data, same trigger (availableNow), the time from start to end of the
query with acknowledgement and commit included; each run in a process of its own, after a warm-up
query in it. Both on PySpark 4.2.0, kept beside this environment's newer one. The third figure is
the ratio of the two on the same server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_jars import connector_jars, pyspark_folder
from sharegroup.client import Admin

ROOT = Path(__file__).resolve().parents[1]
RECORDS = 5_000_000
WARM_UP_RECORDS = 100_000
RUN_SECONDS = 600
LOCKS_SETTING = "group.share.max.partition.max.record.locks"

_runs = itertools.count(1)


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    records = bench.scale.records(RECORDS)
    topic, warm_up = bench.loaded_topic(records), bench.loaded_topic(WARM_UP_RECORDS)
    rates: dict[str, float] = {}
    for cores in (1, 2):
        ours = _rate(bench, "kafka-share", topic, warm_up, cores)
        theirs = _rate(bench, "kafka", topic, warm_up, cores)
        rates |= {f"spark-share-{cores}": ours, f"spark-kafka-{cores}": theirs}
        rates[f"spark-ratio-{cores}"] = ours / theirs
    return rates


def _rate(bench: Bench, kind: str, topic: str, warm_up: str, cores: int) -> float:
    """Rows/s of one query."""
    options = {}
    if kind == "kafka-share" and bench.server.name != "sharegroup":
        # Our broker takes what the source asks for by itself.
        options["recordLocksPerPartition"] = asyncio.run(_locks_max(bench.bootstrap))
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "format": kind,
            "jars": connector_jars() if kind == "kafka" else [],
            "bootstrap": bench.bootstrap,
            "topic": topic,
            "warm_up": warm_up,
            "cores": cores,
            "options": options,
            "folder": folder,
            "run": str(next(_runs)),
        }
        path = os.pathsep.join(map(str, (pyspark_folder(), ROOT / "src", ROOT)))
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.spark_program", json.dumps(job)],
            env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not results:
        raise RuntimeError(f"the {kind} query failed:\n{done.stderr[-3000:]}")
    result = json.loads(results[0].removeprefix("RESULT "))
    if result["rows"] != bench.scale.records(RECORDS):
        raise RuntimeError(f"{kind} read {result['rows']} rows")
    return float(result["rows"] / result["seconds"])


async def _locks_max(bootstrap: str) -> str:
    """Record locks per partition: the most that the server allows. They bound a batch."""
    async with Admin(bootstrap) as admin:
        [node] = (await admin.describe_cluster()).nodes
        return str((await admin.describe_configs("broker", str(node.node_id)))[LOCKS_SETTING].value)


def _rows(cores: int) -> tuple[Row, ...]:
    where = f"Spark local[{cores}]"
    return (
        Row(
            key=f"spark-share-{cores}",
            title=f"{where}, kafka-share",
            unit="rows/s",
            higher_is_better=True,
        ),
        Row(
            key=f"spark-kafka-{cores}",
            title=f"{where}, Spark's own Kafka source",
            unit="rows/s",
            higher_is_better=True,
        ),
        Row(
            key=f"spark-ratio-{cores}",
            title=f"{where}, kafka-share over Spark's own",
            unit="times",
            higher_is_better=True,
            target="≥ 1.2 on ours, ≥ 0.8 on Kafka",
        ),
    )


BENCHMARK = Benchmark(name="spark-source", rows=(*_rows(1), *_rows(2)), run=run, fresh_server=True)
