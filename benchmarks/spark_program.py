"""One Spark session, a warm-up and a measured availableNow query into ``noop``; prints JSON.

Runs as a process of its own, with the Spark that is first on its PYTHONPATH. Arguments: a JSON
object with ``format`` (kafka-share or kafka), ``jars`` to load, ``bootstrap``, ``topic``,
``warm_up`` (a small topic), ``cores``, ``options``, ``folder`` and ``run`` (a word for new names).
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
}


def run(spark: SparkSession, job: dict[str, Any], topic: str) -> dict[str, Any]:
    """Read all of ``topic``: rows, seconds from start to end of the query, batches."""
    options = {
        "kafka.bootstrap.servers": job["bootstrap"],
        "subscribe": topic,
        "startingOffsets": "earliest",
        **job["options"],
    }
    if job["format"] == "kafka-share":
        options["kafka.group.id"] = f"{topic}-{job['run']}"
    rows = spark.readStream.format(job["format"]).options(**options).load()
    checkpoint = f"{job['folder']}/{topic}-{job['run']}"
    writer = rows.writeStream.trigger(availableNow=True).format("noop")
    writer = writer.option("checkpointLocation", checkpoint)
    started = time.perf_counter()
    query = writer.start()
    query.awaitTermination()
    seconds = time.perf_counter() - started
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    count = sum(batch["numInputRows"] for batch in batches)
    work = sum(batch["durationMs"]["addBatch"] for batch in batches) / 1000
    return {"rows": count, "seconds": seconds, "batches": len(batches), "work_seconds": work}


def main() -> None:
    job = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(f"local[{job['cores']}]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    if job["jars"]:
        builder = builder.config("spark.jars", ",".join(job["jars"]))
    spark = builder.getOrCreate()
    run(spark, job, job["warm_up"])
    print("RESULT " + json.dumps(run(spark, job, job["topic"])), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
