"""Starting: from the start of the process to its first answer, and to the first accepted record.

"Ready" is the first answer to an ApiVersions request, tried every 5 ms. "First record accepted"
goes on from there: create a topic, set the group to start at the first record, produce one
record, join the share group, receive it, accept it, and have that acceptance answered. librdkafka
is the client. Formatting Kafka's data folder is not in the time.
"""

from __future__ import annotations

import time

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.share_client import next_records, share_consumer
from tests.servers.admin import produce

READY = "start-ready"
ACCEPTED = "start-accepted"


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    started = time.perf_counter()
    bench.server.start_and_probe()
    ready = time.perf_counter()
    topic, group = bench.new_topic(1), bench.new_group()
    produce(bench.bootstrap, topic, [b"first"])
    with share_consumer(bench.bootstrap, group, topic, explicit=True) as consumer:
        consumer.acknowledge(next_records(consumer)[0])
        consumer.commit_sync(30)
        accepted = time.perf_counter()
    return {READY: ready - started, ACCEPTED: accepted - started}


BENCHMARK = Benchmark(
    name="start",
    rows=(
        Row(key=READY, title="start to ready", unit="s"),
        Row(key=ACCEPTED, title="start to first record accepted", unit="s", target="< 0.6 s"),
    ),
    run=run,
    fresh_server=True,
)
