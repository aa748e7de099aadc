"""Consumer groups of both protocols: the first member of a group, and a hundred members at once.

First member: librdkafka's consumer with open connections, from `subscribe` to its assignment, the
median of five groups. A hundred members: Java's consumers, each with a thread, subscribe at the
same moment to a topic of 200 partitions, until each has some and all of them have all. All clients
with their defaults, `group.initial.rebalance.delay.ms=0`. What members learn with a heartbeat takes
as long as the interval of heartbeats.
"""

from __future__ import annotations

import statistics
import time

from confluent_kafka import Consumer, TopicPartition

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.java_clients import run_clients
from tests.servers.admin import SILENT

PROTOCOLS = ("classic", "consumer")
MEMBERS, PARTITIONS = 100, 200
JOINS, JOIN_SECONDS = 5, 60


class NotAssigned(Exception):
    """A consumer got no partition in time."""


def run(bench: Bench) -> dict[str, float]:
    found = {}
    topic = bench.new_topic()
    wide = bench.new_topic(PARTITIONS)
    for protocol in PROTOCOLS:
        joins = [joined(bench.bootstrap, topic, bench.new_name(), protocol) for _ in range(JOINS)]
        found[f"join-{protocol}"] = statistics.median(joins) * 1000
        found[f"group-100-{protocol}"] = run_clients(
            "group", bench.bootstrap, wide, MEMBERS, PARTITIONS, bench.new_name(), protocol
        )
    bench.admin.delete_topic(wide)
    return found


def joined(bootstrap: str, topic: str, group: str, protocol: str) -> float:
    """Seconds from the subscription to the assignment of a group's only member."""
    moments: list[float] = []

    def assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            moments.append(time.perf_counter())

    servers = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    consumer = Consumer({**servers, **SILENT})
    consumer.list_topics(topic, JOIN_SECONDS)  # connects
    began = time.perf_counter()
    consumer.subscribe([topic], on_assign=assigned)
    while not moments:
        consumer.poll(0.1)
        if time.perf_counter() - began > JOIN_SECONDS:
            raise NotAssigned(f"no assignment in {JOIN_SECONDS} s, {protocol}")
    consumer.close()
    return moments[0] - began


def rows(protocol: str) -> tuple[Row, Row]:
    first, all_ = f"join-{protocol}", f"group-100-{protocol}"
    title = f"first member of a group, {protocol} protocol: subscribe to assigned"
    stable = f"100 members at once, {protocol} protocol: until all are assigned (Java)"
    return (
        Row(key=first, title=title, unit="ms", target="< 100 ms"),
        Row(key=all_, title=stable, unit="s", target="< 1.5 ×"),
    )


BENCHMARK = Benchmark(
    name="consumer-groups",
    rows=tuple(row for protocol in PROTOCOLS for row in rows(protocol)),
    run=run,
)
