"""Transactions of 100 records of 100 B in 4 partitions, by Java's producers: how many per second.

One producer, which has one transaction open at a time; and ten, each with an id of its own. The
first tenth is a warm-up that does not count. Kafka answers from memory; ours, durable, syncs what
a commit promises before it answers.
"""

from __future__ import annotations

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.java_clients import run_clients

TRANSACTIONS = {1: 1000, 10: 2000}
RECORDS, RECORD_BYTES, PARTITIONS = 100, 100, 4


def run(bench: Bench) -> dict[str, float]:
    found = {}
    for producers, count in TRANSACTIONS.items():
        topic = bench.new_topic(PARTITIONS)
        found[key(producers)] = run_clients(
            *("transactions", bench.bootstrap, topic, producers),
            *(max(50, int(count * bench.scale.factor)), RECORDS, RECORD_BYTES),
        )
        bench.admin.delete_topic(topic)
    return found


def key(producers: int) -> str:
    return f"transactions-{producers}"


BENCHMARK = Benchmark(
    name="transactions",
    rows=tuple(
        Row(
            key=key(producers),
            title=f"transactions of 100 records, {producers} producer{'s' * (producers > 1)}",
            unit="1/s",
            higher_is_better=True,
            target="≥ 1.0 ×",
        )
        for producers in TRANSACTIONS
    ),
    run=run,
)
