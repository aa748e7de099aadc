"""Records handled in order per key, many keys at once: our pool beside Confluent's Parallel
Consumer, each in its default settings but for 100 workers. 1,000 keys are drawn by Zipf's law
(s = 1.0), so that every eighth record is of one key: that key bounds both.

Handling a record takes a while in which nothing is computed, as a call of another service does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import NamedTuple

from confluent_kafka import Producer

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.java_clients import run_java
from tests.apache_kafka.jars import PARALLEL_CONSUMER
from tests.kills.ordering.keyed import zipf_keys
from tests.servers.admin import SILENT

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 4
WORKERS = 100
STOP_SECONDS = 30


class Work(NamedTuple):
    """What is handled, and by how many processes of ours."""

    key: str
    title: str
    seconds: float
    records: int
    processes: int = 1
    plain: bool = False
    target: str = ""


WORKS = (
    Work("by-key-100-ms", "100 ms of work per record", 0.1, 1_500, target="≥ 1.0"),
    Work("by-key-1-ms", "1 ms", 0.001, 20_000, target="≥ 1.0"),
    Work("by-key-1-ms-2", "1 ms, our pool in two processes", 0.001, 20_000, 2, target="≥ 1.0"),
    Work("by-key-0.1-ms", "0.1 ms", 0.000_1, 40_000),
    Work("by-key-0.1-ms-2", "0.1 ms, our pool in two processes", 0.000_1, 40_000, 2),
    Work("by-key-plain", "1 ms, a plain consumer, one by one", 0.001, 4_000, plain=True),
)


def run(bench: Bench) -> dict[str, float]:
    """Records per second by work. Ours on our broker, Java's on Apache Kafka."""
    found: dict[str, float] = {}
    for work in WORKS:
        topic = _loaded(bench, work.records)
        found[work.key] = (_ours if bench.server.name == "sharegroup" else _java)(
            bench, topic, work
        )
    return found


def _loaded(bench: Bench, records: int) -> str:
    topic = bench.new_topic(PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": bench.bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            **SILENT,
        }
    )
    for _, key in zip(range(records), zipf_keys(Random(1)), strict=False):
        producer.produce(topic, bytes(100), key=key)
    assert producer.flush(60) == 0
    return topic


def _java(bench: Bench, topic: str, work: Work) -> float:
    how = "plain" if work.plain else WORKERS
    microseconds = round(work.seconds * 1e6)
    words = (how, bench.bootstrap, topic, bench.new_name(), microseconds, work.records)
    return run_java("ByKey", PARALLEL_CONSUMER, *words)


def _ours(bench: Bench, topic: str, work: Work) -> float:
    how = "plain" if work.plain else WORKERS
    words = [how, bench.bootstrap, topic, bench.new_name(), work.seconds]
    with ExitStack() as stack:
        members = [stack.enter_context(_member(words)) for _ in range(work.processes)]
        while sum(member.handled for member in members) < work.records:
            for member in members:
                member.wait()
        busy = [member for member in members if member.handled]
    return work.records / (max(one.ended for one in busy) - min(one.began for one in busy))


class _Member:
    """Follows what a process prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.handled, self.began, self.ended = 0, 0.0, 0.0
        self._process = process
        self._thread = Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            handled, began, ended = line.split()
            self.began, self.ended, self.handled = float(began), float(ended), int(handled)

    def wait(self) -> None:
        """For a moment; raises CalledProcessError if the process has ended."""
        self._thread.join(0.02)
        if not self._thread.is_alive():
            raise subprocess.CalledProcessError(self._process.wait(), self._process.args)


@contextmanager
def _member(words: list[object]) -> Iterator[_Member]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.by_key_program", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _Member(process)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


BENCHMARK = Benchmark(
    name="by-key",
    rows=tuple(
        Row(
            key=work.key,
            title=f"each key in order: {work.title}",
            unit="records/s",
            higher_is_better=True,
            target=work.target,
        )
        for work in WORKS
    ),
    run=run,
    rounds_max=3,
)
