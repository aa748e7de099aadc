"""Restart with 10 GB of log: after a clean stop, and after kill -9.

10,000 records of 1 MB in 4 partitions, by Java's producer; segments of 1 GiB, the default. The time
runs from the start of the process to its first answer to a request for the end offsets of all four
partitions. A broker that was killed checks its active segments again: at most 1 GiB of each
partition. The pages of the files are still in the system's cache. One round at most: it
writes 10 GB for each server. Needs 12 GB of free disk; the data is removed afterwards.
"""

from __future__ import annotations

import shutil
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.java_clients import run_clients
from tests.servers.admin import SILENT

RECORDS, RECORD_BYTES, PARTITIONS = 10_000, 1_000_000, 4
CLEAN, KILLED = "restart-clean", "restart-killed"
FREE_BYTES = 12e9
REPEATS = 3
READY_SECONDS = 300


class DiskFull(Exception):
    """There is not enough free disk."""


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    try:
        return measured(bench)
    finally:
        bench.server.kill()
        shutil.rmtree(bench.server.data, ignore_errors=True)


def measured(bench: Bench) -> dict[str, float]:
    records = int(RECORDS * bench.scale.factor)
    free = shutil.disk_usage(bench.server.data.parent).free
    if free < FREE_BYTES * bench.scale.factor:
        raise DiskFull(f"{free} bytes are free, {FREE_BYTES:.0f} are needed")
    bench.server.start()
    topic = bench.new_topic(PARTITIONS)
    arguments = (topic, 1, records, RECORD_BYTES, "all", "none")
    run_clients("produce", bench.bootstrap, *arguments)
    ends = end_offsets(bench, topic)
    found: dict[str, float] = {}
    for key, end in ((CLEAN, bench.server.stop), (KILLED, bench.server.kill)):
        times = []
        for _ in range(REPEATS):
            end()
            began = time.perf_counter()
            bench.server.start_and_probe()
            assert end_offsets(bench, topic) == ends, "acknowledged records were lost"
            times.append(time.perf_counter() - began)
        found[key] = sorted(times)[REPEATS // 2]
    return found


def end_offsets(bench: Bench, topic: str) -> list[int]:
    """The end offset of each partition, as soon as the broker tells them all."""
    consumer = Consumer({"bootstrap.servers": bench.bootstrap, "group.id": "bench", **SILENT})
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, partition), 1)[1]
                for partition in range(PARTITIONS)
            ]
        except KafkaException:
            if time.monotonic() > until:
                raise


BENCHMARK = Benchmark(
    name="restart",
    rows=(
        Row(key=CLEAN, title="10 GB of log: start after a clean stop", unit="s", target="< 2 s"),
        Row(key=KILLED, title="10 GB of log: start after kill -9", unit="s"),
    ),
    run=run,
    fresh_server=True,
    rounds_max=1,
)
