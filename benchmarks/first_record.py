"""From `subscribe` to the first record of a share group that has records waiting (librdkafka)."""

from __future__ import annotations

import time

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.share_client import new_share_consumer, next_records
from tests.servers.admin import produce

FIRST = "subscribe-first"


def run(bench: Bench) -> dict[str, float]:
    topic, group = bench.new_topic(), bench.new_group()
    produce(bench.bootstrap, topic, (b"%d" % number for number in range(100)))
    with new_share_consumer(bench.bootstrap, group, explicit=False) as consumer:
        subscribed = time.perf_counter()
        consumer.subscribe([topic])
        next_records(consumer)
        first = time.perf_counter()
    return {FIRST: first - subscribed}


BENCHMARK = Benchmark(
    name="first-record",
    rows=(Row(key=FIRST, title="subscribe to first record", unit="s", target="< 0.3 s"),),
    run=run,
)
