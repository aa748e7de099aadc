"""Spark tasks by key (``splitBy=key``) beside tasks by offset: rows/s of ONE Kafka partition.

1 M records of 100 B with 1,000 keys in one batch, ``noop``, local[2]. By key each task fetches the
whole partition and keeps its part, unless the topic has ``accept.range.fetch``: then the broker
answers each task's part only. Our broker only: on Apache Kafka the lock limit makes the batches so
small that they hide the difference.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.spark_session import SHARE, drained

RECORDS = 1_000_000
KEYS = 1_000
VALUE = bytes(90)
CORES = 2
TASKS = (1, 2, 4)
POLLED_EVERY = 10_000
SERIES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "offset": ("splitBy offset", {}, {}),
    "key": ("splitBy key", {"splitBy": "key"}, {}),
    "filtered": (
        "splitBy key, the broker filters",
        {"splitBy": "key"},
        {"accept_range_fetch": "true"},
    ),
}
"""Series → its name, the query's options, the topic's configs."""


def run(bench: Bench) -> dict[str, float]:
    if bench.server.name != "sharegroup":
        return {}
    bench.server.prepare()
    bench.server.start()
    records = bench.scale.records(RECORDS)
    rates: dict[str, float] = {}
    for series, (_, more, configs) in SERIES.items():
        topic = _topic(bench, records, configs)
        cases: list[dict[str, Any]] = [
            {"topic": topic, "sink": "noop", "minPartitions": tasks, **more} for tasks in TASKS
        ]
        results = drained(bench, SHARE, cases, cores=CORES)
        for tasks, result in zip(TASKS, results, strict=True):
            if result["rows"] != records:
                raise RuntimeError(f"{series}, {tasks} tasks: {result['rows']} rows")
            rates[_key(series, tasks)] = records / result["seconds"]
    return rates


def _topic(bench: Bench, records: int, configs: dict[str, str]) -> str:
    topic = bench.new_name()
    bench.admin.create_topic(topic, **configs)
    producer = Producer(
        {
            "bootstrap.servers": bench.bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * records,
        }
    )
    for number in range(records):
        producer.produce(topic, VALUE, key=b"customer-%d" % (number % KEYS))
        if number % POLLED_EVERY == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("not all records could be produced")
    return topic


def _key(series: str, tasks: int) -> str:
    return f"spark-split-{series}-{tasks}"


def _rows() -> tuple[Row, ...]:
    return tuple(
        Row(
            key=_key(series, tasks),
            title=f"Spark local[{CORES}], 1 partition, {_tasks(tasks)}: {name}",
            unit="rows/s",
            higher_is_better=True,
        )
        for series, (name, _, _) in SERIES.items()
        for tasks in TASKS
    )


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"


BENCHMARK = Benchmark(name="spark-split", rows=_rows(), run=run, fresh_server=True)
