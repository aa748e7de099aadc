"""1,000 topics of 4 partitions: the time to create them and to start with them, and memory.

librdkafka's admin client creates them, 100 in a request. Created: until the broker's metadata names
a leader of each partition. The server is then stopped; start runs until its metadata is complete
again. Memory is resident, after the creation and after the start.
"""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.benchmark import Bench, Benchmark, Row
from tests.servers.admin import SILENT

TOPICS, PARTITIONS, IN_REQUEST = 1000, 4, 100
SECONDS = 120
MIB = 1 << 20
KEYS = ("topics-create", "topics-memory", "topics-start", "topics-start-memory")


class Incomplete(Exception):
    """The metadata did not name all partitions in time."""


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    count = int(TOPICS * bench.scale.factor)
    began = time.perf_counter()
    create(bench.bootstrap, count)
    until_complete(bench.bootstrap, count)
    created = time.perf_counter() - began
    memory = bench.server.usage().memory_bytes
    bench.server.stop()
    began = time.perf_counter()
    bench.server.start_and_probe()
    until_complete(bench.bootstrap, count)
    started = time.perf_counter() - began
    values = (created, memory / MIB, started, bench.server.usage().memory_bytes / MIB)
    return dict(zip(KEYS, values, strict=True))


def create(bootstrap: str, count: int) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, **SILENT})
    for first in range(0, count, IN_REQUEST):
        numbers = range(first, min(first + IN_REQUEST, count))
        topics = [NewTopic(f"many-{number}", PARTITIONS, 1) for number in numbers]
        for done in client.create_topics(topics, operation_timeout=SECONDS).values():
            done.result(SECONDS)


def until_complete(bootstrap: str, count: int) -> None:
    """Return when the metadata names a leader of every partition."""
    client = AdminClient({"bootstrap.servers": bootstrap, **SILENT})
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        topics = client.list_topics(timeout=SECONDS).topics.values()
        partitions = [part for topic in topics for part in topic.partitions.values()]
        if sum(part.leader >= 0 for part in partitions) >= count * PARTITIONS:
            return
    raise Incomplete(f"not all of {count} topics are there in {SECONDS} s")


TITLES = ("create", "memory then", "start", "memory after the start")
BENCHMARK = Benchmark(
    name="many-topics",
    rows=tuple(
        Row(
            key=key,
            title=f"1,000 topics of 4 partitions: {title}",
            unit="MiB" if "memory" in key else "s",
        )
        for key, title in zip(KEYS, TITLES, strict=True)
    ),
    run=run,
    fresh_server=True,
)
