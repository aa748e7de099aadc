"""SIGKILL to a broker while producers send the same message ids over and over: each id is in the
log once, and where its producers were told."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from sharegroup.records.message_ids import MESSAGE_ID
from tests.kills.journal import Line, Tail, all_lines
from tests.kills.repeating import TOPIC
from tests.kills.round import Worker
from tests.kills.test_cleaner_kills import fsck
from tests.kills.working import pause
from tests.servers.admin import SILENT, Admin
from tests.servers.sharegroup_server import SharegroupServer

KILLS = 6
LOOK_S = 0.002
WAIT_S = 120
SETTINGS: dict[str, Any] = {"deduplication_window_ms": "3600000", "internal_segment_bytes": "60000"}


def play(folder: Path, seed: int, kills: int) -> SharegroupServer:
    """Writers and kills; the broker at the end."""
    random = Random(seed)
    server = SharegroupServer(folder / "broker")
    server.start()
    Admin(server.bootstrap).create_topic(TOPIC, **SETTINGS)
    variants = ("plain", "ours", "transactions")
    workers = [Worker(folder, server.bootstrap, who, "repeating", who) for who in variants]
    tail = Tail(folder)
    try:
        for worker in workers:
            worker.start()
        for _ in range(kills):
            deadline = time.monotonic() + WAIT_S
            while not any(line.what == "acked" for line in tail.lines()):
                assert time.monotonic() < deadline, "nothing is confirmed any more"
                pause(LOOK_S)
            pause(random.uniform(0, 0.5))
            server.kill()
            fsck(server.data)
            server.start()
        deadline = time.monotonic() + WAIT_S
        while not any(line.what == "acked" for line in tail.lines()):
            assert time.monotonic() < deadline, "nothing is confirmed any more"
            pause(LOOK_S)
        assert [worker.stop(WAIT_S) for worker in workers] == [0, 0, 0]
    finally:
        for worker in workers:
            if worker.ended is None:
                worker.strike()
    return server


def committed_ids(bootstrap: str) -> dict[int, str]:
    """Offset → message id of all records, as a read_committed consumer of librdkafka sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **SILENT,
        }
    )
    found: dict[int, str] = {}
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():  # the end of the partition
                return found
            headers: list[Any] = list(message.headers() or ())
            ids = [value for name, value in headers if name == MESSAGE_ID]
            found[message.offset() or 0] = ids[0].decode()
    finally:
        consumer.close()
    raise AssertionError("the consumer does not come to the end")


def wrong(lines: list[Line], found: dict[int, str]) -> list[str]:
    """What is not as it was promised, one sentence each."""
    said = [f"{name} is there {n} times" for name, n in Counter(found.values()).items() if n > 1]
    offsets = {name: offset for offset, name in found.items()}
    for line in lines:
        if line.what == "acked" and offsets.get(line.more["name"]) != line.more["offset"]:
            name, told = line.more["name"], line.more["offset"]
            said.append(f"{name} was confirmed at {told} and is at {offsets.get(name)}")
        if line.what == "committed":
            said += [f"{name} was committed" for name in line.more["names"] if name not in offsets]
    return said


@pytest.mark.process
@pytest.mark.timeout(900)
def test_each_message_id_is_there_once_whatever_is_killed(tmp_path: Path) -> None:
    server = play(tmp_path, seed=1, kills=KILLS)
    try:
        lines = all_lines(tmp_path)
        assert wrong(lines, committed_ids(server.bootstrap)) == []
        acked = Counter(line.more["name"] for line in lines if line.what == "acked")
        assert acked.most_common(1)[0][1] > 1, "nothing was sent twice"
    finally:
        server.kill()
    fsck(server.data)
