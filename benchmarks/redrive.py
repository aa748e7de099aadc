"""Redrive of dead letters: how many a second go back to the topic that they are from.

200,000 letters with copies of records of 100 B, in 4 partitions, and `sharegroup groups redrive` in
a process of its own. The rate runs from the first transaction to the last, so the start of the
process does not count. Both brokers do the same work: the letters have the headers of KIP-1191.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

from benchmarks.benchmark import Bench, Benchmark, Row
from sharegroup import Producer

LETTERS, RECORD_BYTES, PARTITIONS = 200_000, 100, 4
SECONDS = 300
KEY = "redrive"


class RedriveFailed(Exception):
    """The command ended with an error, or redrove something else."""


def run(bench: Bench) -> dict[str, float]:
    topic, dead = bench.new_topic(PARTITIONS), bench.new_topic(PARTITIONS)
    letters = max(30_000, int(LETTERS * bench.scale.factor))
    group = bench.new_name()
    asyncio.run(write_letters(bench.bootstrap, topic, dead, group, letters))
    rate = redriven(bench.bootstrap, dead, group, letters)
    for one in (topic, dead):
        bench.admin.delete_topic(one)
    return {KEY: rate}


async def write_letters(bootstrap: str, topic: str, dead: str, group: str, letters: int) -> None:
    value = b"x" * RECORD_BYTES
    async with Producer(bootstrap, batch_size=256 * 1024) as producer:
        for number in range(letters):
            partition = number % PARTITIONS
            said = {
                "topic": topic,
                "partition": partition,
                "offset": number // PARTITIONS,
                "group": group,
                "delivery.count": 5,
                "message": "no such customer",
                "cause": "rejected",
                "failed.ms": 1_700_000_000_000 + number,
                "timestamp": 1_700_000_000_000,
            }
            headers = [(f"__dlq.errors.{name}", str(text).encode()) for name, text in said.items()]
            await producer.enqueue(
                dead, value, key=b"%d" % (number % 1000), headers=headers, partition=partition
            )


def redriven(bootstrap: str, dead: str, group: str, letters: int) -> float:
    """Letters in a second."""
    words = ["groups", "redrive", group, "--dead-letters", dead, "--json", "-b", bootstrap]
    with subprocess.Popen(
        [sys.executable, "-m", "sharegroup", *words], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        seen = [(json.loads(line), time.perf_counter()) for line in command.stdout]
        status = command.wait(SECONDS)
    if status or seen[-1][0]["done"] != letters:
        raise RedriveFailed(f"status {status}, {seen[-1:]}")
    steps = [(said["done"], at) for said, at in seen if said["step"] == "committed"]
    (first, began), (last, ended) = steps[0], steps[-1]
    return (last - first) / (ended - began)


BENCHMARK = Benchmark(
    name="redrive",
    rows=(
        Row(
            key=KEY,
            title="redrive of dead letters",
            unit="records/s",
            higher_is_better=True,
            target="≥ 50,000",
        ),
    ),
    run=run,
)
