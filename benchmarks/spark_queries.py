"""The queries that the Spark benchmarks measure, in the process of the Spark session.

A query is a dictionary: ``format`` (kafka-share or kafka), ``options`` of its source, ``sink``
(noop, parquet, accept, wait or watch), ``folder`` for its checkpoint and output, and the arguments
of its sink.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, udf
from pyspark.sql.streaming.query import StreamingQuery

WATCH_SECONDS = 120
SAMPLE_SECONDS = 0.2
SOURCE_PROCESS = b"python_streaming_source_runner"


def read(spark: SparkSession, query: dict[str, Any]) -> DataFrame:
    """The stream."""
    return spark.readStream.format(query["format"]).options(**query["options"]).load()


def drain(spark: SparkSession, query: dict[str, Any]) -> dict[str, Any]:
    """Read all records. Returns the rows, the seconds from start to end of the query, and its
    batches.
    """
    rows = read(spark, query)
    if query["sink"] == "accept":
        rows = rows.select("topic", "partition", "offset", lit("accept").alias("ack"))
    elif query["sink"] == "wait":
        rows = rows.select(_waiting(query["address"])(col("offset")).alias("answer"))
    writer = rows.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{query['folder']}/checkpoint")
    if query["sink"] == "parquet":
        writer = writer.format("parquet").option("path", f"{query['folder']}/rows")
    elif query["sink"] == "accept":
        writer = writer.format("kafka-share").option("ackLocation", query["options"]["ackLocation"])
    else:
        writer = writer.format("noop")
    started = time.perf_counter()
    running = writer.start()
    memory = _memory(running) if query.get("memory") else []
    running.awaitTermination()
    seconds = time.perf_counter() - started
    batches = [progress for progress in running.recentProgress if progress["numInputRows"]]
    return {
        "rows": sum(batch["numInputRows"] for batch in batches),
        "seconds": seconds,
        "batches": [batch["durationMs"] for batch in batches],
        "memory": memory,
    }


def watch(
    spark: SparkSession, query: dict[str, Any], started: Callable[[], None]
) -> dict[str, Any]:
    """Measure how many seconds after its timestamp each record is seen in ``foreachBatch``.

    ``started`` is called when the first ``before`` records were seen; the result has the
    ``records`` records after them.
    """
    seen: list[float] = []
    first, all_seen = threading.Event(), threading.Event()

    def see(batch: DataFrame, _number: int) -> None:
        produced = batch.select(col("timestamp").cast("double").alias("at")).collect()
        now = time.time()
        seen.extend(now - row["at"] for row in produced)
        if len(seen) >= query["before"]:
            first.set()
        if len(seen) >= query["before"] + query["records"]:
            all_seen.set()

    writer = read(spark, query).writeStream.foreachBatch(see)
    running = writer.option("checkpointLocation", f"{query['folder']}/checkpoint").start()
    try:
        if not first.wait(WATCH_SECONDS):
            raise TimeoutError(f"the first records were not seen: {running.exception()}")
        started()
        if not all_seen.wait(WATCH_SECONDS):
            raise TimeoutError(f"{len(seen)} records were seen: {running.exception()}")
    finally:
        running.stop()
    return {"latencies": seen[query["before"] :]}


def _waiting(address: tuple[str, int]) -> Any:
    """A UDF that calls a slow server for each record, one after the other."""

    def ask(_offset: int) -> int:
        connection = _connection(tuple(address))
        connection.sendall(b"?")
        return connection.recv(1)[0]

    return udf(ask, "int", useArrow=False)


@functools.cache
def _connection(address: tuple[str, int]) -> socket.socket:
    """The connection of this worker process."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _memory(running: StreamingQuery) -> list[tuple[int, int]]:
    """Sample while the query runs: rows so far, and resident bytes of the source's process."""
    curve: list[tuple[int, int]] = []
    pause = threading.Event()
    while running.isActive:
        pause.wait(SAMPLE_SECONDS)
        rows = sum(progress["numInputRows"] for progress in running.recentProgress)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
            sizes = [_resident(process) for process in _source_processes()]
            curve += [(rows, size) for size in sizes]
    return curve


def _source_processes() -> list[Path]:
    """The source processes of this session: grandchildren of this process."""
    return [
        process
        for jvm in _children(os.getpid())
        for process in _children(int(jvm.name))
        if SOURCE_PROCESS in (process / "cmdline").read_bytes()
    ]


def _children(parent: int) -> list[Path]:
    found = Path(f"/proc/{parent}/task").glob("*/children")
    return [Path("/proc") / child for path in found for child in path.read_text().split()]


def _resident(process: Path) -> int:
    pages = int((process / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
