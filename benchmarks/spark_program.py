"""One Spark session that runs the given queries and prints one line of JSON for each.

It runs as a separate process, with the Spark that is first on its PYTHONPATH. Its argument is a
JSON object: ``cores``, ``jars``, ``settings`` and ``queries``, each as in
:mod:`benchmarks.spark_queries`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.spark_queries import drain, watch

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
}
RESULT = "RESULT "


def session(job: dict[str, Any]) -> SparkSession:
    """The session of the job."""
    builder = SparkSession.builder.master(f"local[{job['cores']}]")
    for name, value in {**SETTINGS, **job["settings"]}.items():
        builder = builder.config(name, value)
    if job["jars"]:
        builder = builder.config("spark.jars", ",".join(job["jars"]))
    return builder.getOrCreate()


def say(result: dict[str, Any]) -> None:
    """Print a result for the benchmark that started this process."""
    print(RESULT + json.dumps(result), flush=True)


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job)
    for query in job["queries"]:
        if query["sink"] == "watch":
            say(watch(spark, query, started=lambda: say({"started": True})))
        else:
            say(drain(spark, query))
    spark.stop()


if __name__ == "__main__":
    main()
