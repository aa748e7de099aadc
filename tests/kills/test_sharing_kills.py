"""SIGKILL to members that share partitions by key, and to their broker (KIP-X). The checker knows
only what the members noted:

* no record is missing;
* the first reads of a key's records, over all members, are in the order of the log: so nobody began
  with a key before the one that had it had let go of it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kills.journal import Line, all_lines
from tests.kills.round import BROKER_OPTIONS, Worker
from tests.kills.sharing import GROUP, TOPIC
from tests.kills.working import pause
from tests.servers.admin import SILENT, Admin
from tests.servers.sharegroup_server import SharegroupServer

PARTITIONS = 4
PROCESSES, MEMBERS = 3, 4
KEYS = 1_000
KILLS = 10
"""Of a process with four members; every fifth is one of the broker as well."""
RECORDS = 6_000
PEACE_S = (0.3, 1.5)
END_S = 200
OPTIONS = (*BROKER_OPTIONS, "group.consumer.assignment.interval.ms=0")


def zipf(random: Random, count: int) -> list[int]:
    """Keys of which the n-th is drawn 1/n as often as the first."""
    weights = list(itertools.accumulate(1 / number for number in range(1, KEYS + 1)))
    return random.choices(range(KEYS), cum_weights=weights, k=count)


def wrong(lines: Iterable[Line], count: int) -> list[str]:
    """What must not be."""
    found = []
    first: dict[tuple[int, str], int] = {}
    seen: set[tuple[int, int]] = set()
    for line in lines:
        if line.what != "read":
            continue
        partition, offset, key = (line.more[name] for name in ("partition", "offset", "key"))
        if (partition, offset) not in seen:
            seen.add((partition, offset))
            before = first.get((partition, key), -1)
            if offset < before:
                found.append(f"{key}: {before} of partition {partition} was read before {offset}")
            first[partition, key] = offset
    if len(seen) != count:
        found.append(f"{count - len(seen)} records are missing")
    return found


@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1])
def test_kills_of_members_that_share_partitions(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    server = SharegroupServer(tmp_path / "broker", *OPTIONS)
    server.start()
    Admin(server.bootstrap).create_topic(TOPIC, partitions=PARTITIONS, accept_range_fetch="true")
    workers = [
        Worker(tmp_path, server.bootstrap, f"members-{n}", "sharing", str(MEMBERS))
        for n in range(PROCESSES)
    ]
    keys = iter(zipf(random, RECORDS))
    try:
        for worker in workers:
            worker.start()
        for kill in range(KILLS):
            produce(server.bootstrap, itertools.islice(keys, RECORDS // KILLS))
            pause(random.uniform(*PEACE_S))
            random.choice(workers).strike()
            if kill % 5 == 4:
                server.kill()
                server.start()
            for worker in workers:
                if worker.ended is not None:
                    worker.start()
        deadline = time.monotonic() + END_S
        while missing(tmp_path) and time.monotonic() < deadline:
            pause(0.2)
        assert [worker.stop(END_S) for worker in workers] == [0] * PROCESSES
        assert wrong(all_lines(tmp_path), RECORDS) == []
        assert committed(server.bootstrap) == RECORDS
    finally:
        for worker in workers:
            if worker.ended is None:
                worker.strike()
        server.kill()


def committed(bootstrap: str) -> int:
    """The sum of the committed offsets, as any client of the group sees them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **SILENT})
    wheres = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    try:
        return sum(each.offset for each in consumer.committed(wheres, timeout=END_S))
    finally:
        consumer.close()


def missing(folder: Path) -> int:
    """How many records nobody has read."""
    lines = all_lines(folder)
    read = {(line.more["partition"], line.more["offset"]) for line in lines if line.what == "read"}
    return RECORDS - len(read)


def produce(bootstrap: str, keys: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **SILENT})
    for key in keys:
        producer.produce(TOPIC, b"", key=f"key-{key}".encode())
    assert producer.flush(30) == 0
