"""The time from `produce` until a share consumer has the record, at a steady rate.

librdkafka on both sides, in one process with one clock; linger 0, acks=all, one partition, implicit
acknowledgement. The measurement begins after the consumer has received a first record.
"""

from __future__ import annotations

import threading
import time

from confluent_kafka import Producer, ShareConsumer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.share_client import next_records, share_consumer
from tests.servers.admin import SILENT, produce

PACES = (100, 500)
SECONDS = 10.0
DRAIN_SECONDS = 10.0


class RecordsMissing(Exception):
    """Not all produced records were received in time."""


def run(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    for pace in PACES:
        topic, group = bench.new_topic(1), bench.new_group()
        produce(bench.bootstrap, topic, [b"warm"])
        with share_consumer(bench.bootstrap, group, topic, explicit=False) as consumer:
            next_records(consumer)
            count = int(pace * bench.scale.seconds(SECONDS))
            delays = sorted(paced_delays(bench.bootstrap, consumer, topic, pace, count))
        found[f"latency-{pace}-p50"] = delays[len(delays) // 2] / 1e6
        found[f"latency-{pace}-p99"] = delays[len(delays) * 99 // 100] / 1e6
    return found


def paced_delays(
    bootstrap: str, consumer: ShareConsumer, topic: str, pace: int, count: int
) -> list[int]:
    """Nanoseconds from produce to receive of each of `count` records, `pace` per second."""
    sender = threading.Thread(target=send_at_pace, args=(bootstrap, topic, pace, count))
    sender.start()
    delays: list[int] = []
    deadline = time.monotonic() + count / pace + DRAIN_SECONDS
    while len(delays) < count and time.monotonic() < deadline:
        messages = consumer.poll(1)
        now = time.perf_counter_ns()
        delays += [now - int(message.value()) for message in messages]
    sender.join()
    if len(delays) < count:
        raise RecordsMissing(f"{len(delays)} of {count} records came")
    return delays


def send_at_pace(bootstrap: str, topic: str, pace: int, count: int) -> None:
    """Produce `count` records, each holding the time at which it was produced."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **SILENT})
    start = time.perf_counter()
    for number in range(count):
        while (ahead := start + number / pace - time.perf_counter()) > 0:
            producer.poll(ahead)
        producer.produce(topic, b"%d" % time.perf_counter_ns())
    producer.flush(DRAIN_SECONDS)


def rows(pace: int) -> tuple[Row, Row]:
    title = f"produce to received, {pace}/s"
    return (
        Row(key=f"latency-{pace}-p50", title=f"{title}: p50", unit="ms", target="≤ 1 ms + fsync"),
        Row(key=f"latency-{pace}-p99", title=f"{title}: p99", unit="ms", target="≤ 1.0 ×"),
    )


BENCHMARK = Benchmark(
    name="latency", rows=tuple(row for pace in PACES for row in rows(pace)), run=run
)
