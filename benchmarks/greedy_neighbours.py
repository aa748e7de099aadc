"""The latency of one client's requests while another client uses as much of the broker as it can.

The victim produces one record at a time with acks=all, and pauses between two. The attackers run in
another process. Each attack is a row: the victim's 50th and 99th percentile.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.greedy_client import ATTACKS
from tests.servers.admin import SILENT

RECORDS = 400
PAUSE_S = 0.003
PAUSE = threading.Event()
FLUSH_SECONDS = 60
CROWDED_PARTITIONS = 6
BIG_RECORDS = 40
BIG_BYTES = 900_000
ALONE = "alone"
TITLES = {
    ALONE: "produce, one at a time: alone",
    "pipelining": "… beside one that pipelines small requests",
    "small-produces": "… beside one that pipelines produce requests of 100 B to 6 partitions",
    "produce": "… beside one that pipelines produce requests of 900 kB",
    "unread": "… beside 20 that fetch and never read",
    "unfinished": "… beside 12 unfinished requests of 20 MiB",
    "acknowledge": "… beside acknowledgements of 800,000 ranges",
}


class NeverAnswered(Exception):
    """The victim's record was not written in time."""


def run(bench: Bench) -> dict[str, float]:
    bench.server.prepare()
    bench.server.start()
    victim, crowded = bench.new_topic(1), bench.new_topic(CROWDED_PARTITIONS)
    fill(bench.bootstrap, crowded)
    found = percentiles(ALONE, delays(bench.bootstrap, victim, RECORDS))
    for attack in ATTACKS:
        words = [sys.executable, "-m", "benchmarks.greedy_client", attack, bench.bootstrap, crowded]
        with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT) as attacker:
            try:
                assert attacker.stdout is not None
                attacker.stdout.readline()  # the attack has begun
                found |= percentiles(attack, delays(bench.bootstrap, victim, RECORDS))
            finally:
                attacker.kill()
    return found


ROOT = Path(__file__).resolve().parent.parent


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **SILENT})
    for _ in range(BIG_RECORDS):
        producer.produce(topic, bytes(BIG_BYTES), partition=0)
    producer.flush(FLUSH_SECONDS)


def delays(bootstrap: str, topic: str, count: int) -> list[float]:
    """Milliseconds from a record to its acknowledgement, sorted."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **SILENT})
    found: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        producer.produce(topic, b"x" * 100)
        if producer.flush(FLUSH_SECONDS):
            raise NeverAnswered(f"{len(found)} of {count} records came through")
        found.append((time.perf_counter() - start) * 1e3)
        PAUSE.wait(PAUSE_S)
    return sorted(found[1:])  # the first one includes the time to connect


def percentiles(name: str, delays_ms: list[float]) -> dict[str, float]:
    return {
        f"greedy-{name}-p50": delays_ms[len(delays_ms) // 2],
        f"greedy-{name}-p99": delays_ms[len(delays_ms) * 99 // 100],
    }


def rows(name: str) -> tuple[Row, Row]:
    target = "" if name == ALONE else "≤ 3 × alone"
    return (
        Row(key=f"greedy-{name}-p50", title=f"{TITLES[name]}: p50", unit="ms"),
        Row(key=f"greedy-{name}-p99", title=f"{TITLES[name]}: p99", unit="ms", target=target),
    )


BENCHMARK = Benchmark(
    name="greedy-neighbours",
    rows=tuple(row for name in TITLES for row in rows(name)),
    run=run,
    fresh_server=True,
)
