"""A query whose slowest task Spark starts a second time, on another host, while the first attempt
still runs (``spark.speculation``).

Arguments: Spark's master, bootstrap servers, a topic (and group), a folder, and ackModes. Each mode
has a query, which reads ``TOPIC-MODE`` and writes ``FOLDER/MODE/result.json``: how often each
record is in the committed output, and the last progress.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.session import SETTINGS

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.01",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}
TASKS, SLOW_TASK = 4, 0
LIMIT_S = 600
SCHEMA = "topic string, partition int, offset long, value binary, attempt int, ack string"


def session(master: str) -> SparkSession:
    """A session of two executors, on two hosts."""
    builder = SparkSession.builder.master(master)
    for name, value in {**SETTINGS, **SPECULATION}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def slow_at_first(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on. The first attempt of one task waits until its copy has passed all on, and
    decides otherwise than the copy."""
    copied = Path(folder, "copied")

    def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        is_slow, attempt = task.partitionId() == SLOW_TASK, task.attemptNumber()
        end = time.monotonic() + LIMIT_S
        for batch in batches:
            while is_slow and attempt == 0 and not copied.exists():
                assert time.monotonic() < end, "there was no copy"
                threading.Event().wait(0.01)
            rows = batch.num_rows
            ack = "reject" if is_slow and attempt == 0 else "accept"
            columns = [batch.column(name) for name in ("topic", "partition", "offset", "value")]
            more = [pa.array([attempt] * rows, pa.int32()), pa.array([ack] * rows)]
            names = ["topic", "partition", "offset", "value", "attempt", "ack"]
            yield pa.RecordBatch.from_arrays([*columns, *more], names)
        if is_slow and attempt > 0:
            copied.touch()

    return passed_on


def started(rows: DataFrame, mode: str, folder: str) -> StreamingQuery:
    """The query: with ``explicit`` it answers each record, otherwise it writes files."""
    checkpoint = f"{folder}/checkpoint"
    writer = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", checkpoint)
    if mode == "explicit":
        writer = rows.select("topic", "partition", "offset", "ack").writeStream
        writer = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint)
        return writer.format("kafka-share").option("ackLocation", f"{folder}/acks").start()
    return writer.format("parquet").option("path", f"{folder}/rows").start()


def run(spark: SparkSession, bootstrap: str, topic: str, mode: str, folder: str) -> None:
    """One query to its end, and its ``result.json``."""
    options = {"ackMode": mode, "minPartitions": str(TASKS)}
    if mode != "implicit":
        options["ackLocation" if mode == "explicit" else "claimLocation"] = f"{folder}/acks"
    source = (
        spark.readStream.format("kafka-share")
        .options(**options)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.group.id", topic)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = started(source.mapInArrow(slow_at_first(folder), SCHEMA), mode, folder)
    query.awaitTermination()
    last = query.lastProgress
    assert last is not None
    found: Counter[str] = Counter()
    if mode != "explicit":
        rows = spark.read.parquet(f"{folder}/rows").collect()
        found.update(bytes(row.value).decode() for row in rows)
    result = {"found": found, "report": json.loads(last.sources[0].latestOffset)}
    Path(folder, "result.json").write_text(json.dumps(result))


def main(master: str, bootstrap: str, topic: str, folder: str, *modes: str) -> None:
    spark = session(master)
    for mode in modes:
        run(spark, bootstrap, f"{topic}-{mode}", mode, f"{folder}/{mode}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
