"""The time from the start of the server's process to its first answer, and to the first accepted
record.

"Ready" is the first answer to an ApiVersions request, tried every 5 ms. "First record accepted"
continues from there: create a topic, set the group to start at the first record, produce one
record, join the share group, receive the record, accept it, and get the answer to that. librdkafka
is the client. The time to format Kafka's data folder is not included.
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
