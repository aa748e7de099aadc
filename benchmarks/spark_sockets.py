"""The effect of ``spark.python.unix.domain.socket.enabled`` on the time of a batch of 1,000
records.

availableNow over 50,000 records, local[2], into ``noop``. The setting concerns the sockets between
Spark's JVM and its Python processes, so the server hardly matters.
"""

from __future__ import annotations

import statistics

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import SHARE, drained

RECORDS = 50_000
BATCH = 1_000
SETTING = "spark.python.unix.domain.socket.enabled"
KEYS = {"false": "spark-sockets-tcp", "true": "spark-sockets-unix"}


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    topic = bench.loaded_topic(bench.scale.records(RECORDS))
    case = {"topic": topic, "maxOffsetsPerTrigger": BATCH}
    found = {}
    for value, key in KEYS.items():
        [result] = drained(bench, SHARE, [case], cores=2, settings={SETTING: value})
        times = [batch["triggerExecution"] for batch in result["batches"][1:]]
        found[key] = statistics.median(times)
    return found


BENCHMARK = Benchmark(
    name="spark-sockets",
    rows=(
        Row(key=KEYS["false"], title="Spark, batch of 1,000 records: TCP to Python", unit="ms"),
        Row(key=KEYS["true"], title="Spark, batch of 1,000: Unix domain sockets", unit="ms"),
    ),
    run=run,
    fresh_server=True,
)
