"""Slow work on ONE Kafka partition: records/s by the number of Spark tasks.

For each record a task calls a server on this machine that answers after 5 ms, one record after the
other. 2,000 records in one batch, local[8]; the figure is the rate of that batch. ``minPartitions``
sets the number of tasks in both sources. Without it Spark's own source has one task per Kafka
partition.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import KAFKA, SHARE, drained

RECORDS = 2_000
CORES = 8
TASKS = (1, 2, 4, 8)
WORK_SECONDS = 0.005
HOST = "127.0.0.1"
SERIES: dict[str, tuple[str, str, dict[int, int | None]]] = {
    "share": ("kafka-share", SHARE, {1: 1, 2: 2, 4: 4, 8: 8}),
    "kafka": ("Spark's own Kafka source", KAFKA, {1: None}),
    "kafka-split": ("Spark's own, minPartitions", KAFKA, {2: 2, 4: 4, 8: 8}),
}
"""Series → its name, its source, and tasks → ``minPartitions``."""


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    topic = bench.loaded_topic(RECORDS, partitions=1)
    rates: dict[str, float] = {}
    with _slow_server() as address:
        for series, (_, kind, asked) in SERIES.items():
            warm_up = _case(topic, address, CORES)  # starts all worker processes
            cases = [_case(topic, address, wanted) for wanted in asked.values()]
            results = drained(bench, kind, [warm_up, *cases], cores=CORES)[1:]
            for tasks, result in zip(asked, results, strict=True):
                rates[key(series, tasks)] = _rate(result)
    return rates


def key(series: str, tasks: int) -> str:
    """The key of a row."""
    return f"spark-tasks-{series}-{tasks}"


def _case(topic: str, address: tuple[str, int], tasks: int | None) -> dict[str, Any]:
    case: dict[str, Any] = {"topic": topic, "sink": "wait", "more": {"address": address}}
    return case if tasks is None else {**case, "minPartitions": tasks}


def _rate(result: dict[str, Any]) -> float:
    if result["rows"] != RECORDS or len(result["batches"]) != 1:
        raise RuntimeError(f"{result['rows']} rows in {len(result['batches'])} batches")
    return float(RECORDS / result["batches"][0]["addBatch"] * 1000)


@contextmanager
def _slow_server() -> Iterator[tuple[str, int]]:
    """A server that answers each byte after a delay."""
    loop = asyncio.new_event_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            await asyncio.sleep(WORK_SECONDS)
            writer.write(b"!")
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(answer, HOST, 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def _rows() -> tuple[Row, ...]:
    return tuple(
        Row(
            key=key(series, tasks),
            title=f"Spark, 1 partition, 5 ms of work a record, {_tasks(tasks)}: {name}",
            unit="records/s",
            higher_is_better=True,
            target="rises" if series == "share" and tasks > 1 else "",
        )
        for series, (name, _, asked) in SERIES.items()
        for tasks in asked
    )


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"


BENCHMARK = Benchmark(name="spark-tasks", rows=_rows(), run=run, fresh_server=True)
