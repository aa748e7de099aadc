"""Two producers that wait after every two records, and six share consumers on two partitions.

What librdkafka's own test 0174 does (``do_test_2p_6c_1t_2part``), with its share consumers: each
producer sends one record to each partition and flushes, so that batches hold one record or two, and
each fetch brings as few. The time is from the first record to the last first delivery. The
consumers accept implicitly. Producers run in processes of their own.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.share_client import share_consumer
from tests.servers.admin import SILENT

RATE, CPU = "lockstep-rate", "lockstep-cpu"
RECORDS = 20_000
PARTITIONS, PRODUCERS, CONSUMERS = 2, 2, 6
SECONDS = 300
POLL_S = 0.5
ROOT = Path(__file__).resolve().parent.parent


def run(bench: Bench) -> dict[str, float]:
    topic, group = bench.new_topic(PARTITIONS), bench.new_group()
    records = bench.scale.records(RECORDS)
    each = records // PRODUCERS
    found: dict[str, float] = {}
    words = [sys.executable, "-m", "benchmarks.lockstep", bench.bootstrap, topic, str(each)]
    tally = Tally(records)
    members = [
        threading.Thread(target=member, args=(bench.bootstrap, group, topic, tally))
        for _ in range(CONSUMERS)
    ]
    producers = []
    try:
        with bench.cpu_per_record(found, CPU, records):
            started = time.perf_counter()
            producers = [subprocess.Popen(words, cwd=ROOT) for _ in range(PRODUCERS)]
            for each_member in members:
                each_member.start()
            if not tally.all.wait(SECONDS):
                raise TimeoutError(f"{tally.first} of {records} records in {SECONDS} s")
            taken = time.perf_counter() - started
    finally:
        tally.all.set()
        for producer in producers:
            producer.kill()
            producer.wait()
        for each_member in members:
            each_member.join()
    return {**found, RATE: records / taken}


class Tally:
    """What the members have seen."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.first = 0
        self.all = threading.Event()
        self._lock = threading.Lock()

    def add(self, first: int) -> None:
        """So many records came for the first time."""
        with self._lock:
            self.first += first
            if self.first >= self.wanted:
                self.all.set()


def member(bootstrap: str, group: str, topic: str, tally: Tally) -> None:
    """One consumer, until all has come."""
    with share_consumer(bootstrap, group, topic, explicit=False) as consumer:
        while not tally.all.is_set():
            messages = list(consumer.poll(POLL_S))
            tally.add(sum(message.delivery_count() == 1 for message in messages))


def produce(bootstrap: str, topic: str, records: int) -> None:
    """One record to each partition, and a flush, again and again."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **SILENT})
    for number in range(records):
        producer.produce(topic, b"message %d" % number, partition=number % PARTITIONS)
        if number % PARTITIONS == PARTITIONS - 1:
            producer.flush(1)
    producer.flush(SECONDS)


BENCHMARK = Benchmark(
    name="lockstep",
    rows=(
        Row(
            key=RATE,
            title="two producers that wait after two records, six share consumers (librdkafka)",
            unit="records/s",
            higher_is_better=True,
            target="≥ 1.0 ×",
        ),
        Row(key=CPU, title="… server CPU per record", unit="µs"),
    ),
    run=run,
)

if __name__ == "__main__":
    produce(sys.argv[1], sys.argv[2], int(sys.argv[3]))
