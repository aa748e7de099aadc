"""Apache Kafka cleans a log and stops; we open it, read it and go on; Kafka opens it again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sharegroup.wire.batch import parse_headers
from tests.apache_kafka.broker import KafkaBroker
from tests.kills.compacting import TOPIC
from tests.kills.table import Row, rows
from tests.kills.test_cleaner_kills import COMPACTED, fsck
from tests.kills.test_kafka_and_cleaned_logs import FOLDER, IDENTITY, replace_log
from tests.kills.working import pause
from tests.servers.admin import SILENT, Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
CLEANED = "cleaner-offset-checkpoint"
CLEANER = ("log.cleaner.backoff.ms=50", "log.cleaner.delete.retention.ms=1000")
WAIT_S = 200
"""Enough on a machine with much other work: JVMs start one after the other there."""
LOOK_S = 0.02


def write(server: RunningServer, first: int, count: int) -> None:
    """Records of few keys; each tenth is one of a key of its own."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, **SILENT})
    for number in range(first, first + count):
        key = f"own-{number}" if number % 100 == 0 else f"key-{number % 7}"
        producer.produce(TOPIC, f"plain.{number}".encode() + b" " * 400, key.encode())
        if number % 20 == 0:
            assert producer.flush(WAIT_S) == 0
    assert producer.flush(WAIT_S) == 0


def cleaned_until(data: Path) -> int:
    """What the checkpoint of Kafka's cleaner says of the topic."""
    path = data / CLEANED
    lines = path.read_text().splitlines() if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith(TOPIC)), default=0)


def until_cleaned(data: Path, offset: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while cleaned_until(data) < offset:
        assert time.monotonic() < deadline, "Kafka cleans nothing"
        pause(LOOK_S)


def gaps(folder: Path) -> int:
    """How many segments end before the next one begins."""
    logs = sorted(folder.glob("*.log"))
    ends = [
        max((header.last_offset + 1 for header in parse_headers(log.read_bytes())), default=0)
        for log in logs[:-1]
    ]
    return sum(end < int(after.stem) for end, after in zip(ends, logs[1:], strict=True))


def table(found: list[Row]) -> dict[str, str | None]:
    return {row.key: row.value for row in found}


def test_we_open_what_kafka_has_cleaned(tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path / "kafka", *CLEANER)
    kafka.start()
    Admin(kafka.bootstrap).create_topic(TOPIC, **COMPACTED)
    for step in range(2):
        write(kafka, 2000 * step, 2000)
        until_cleaned(kafka.data, 2000 * step + 1500)
    kafka.process.stop()
    theirs = kafka.data / FOLDER
    copy = tmp_path / "copy"
    shutil.copytree(theirs, copy)

    assert gaps(copy), "Kafka has left no gap"
    ours = SharegroupServer(tmp_path / "ours", "log.cleaner.enable=false")
    ours.start()
    Admin(ours.bootstrap).create_topic(TOPIC, **COMPACTED)
    ours.stop()
    replace_log(copy, ours.data / FOLDER)
    # A stop may interrupt Kafka's cleaner behind its checkpoint, but never in the last segment.
    newest = max(int(log.stem) for log in copy.glob("*.log"))
    assert newest >= cleaned_until(kafka.data)
    (ours.data / CLEANED).write_text(f"0\n1\n{TOPIC} 0 {newest}\n")
    fsck(ours.data)
    ours.start()
    first = rows(ours.bootstrap)
    assert len(first) < 2000
    assert {row.key for row in first} >= {f"own-{n}" for n in range(0, 4000, 100)}
    write(ours, 4000, 500)
    second = rows(ours.bootstrap)
    assert second[: len(first)] == first
    assert len(second) == len(first) + 500
    ours.stop()
    assert not list((ours.data / FOLDER).glob("*.damaged"))
    fsck(ours.data)
    assert not gaps(ours.data / FOLDER)

    for path in theirs.iterdir():
        if path.name != IDENTITY:
            path.unlink()
    replace_log(ours.data / FOLDER, theirs)
    kafka.start()
    found = rows(kafka.bootstrap)
    assert table(found) == table(second)
    write(kafka, 4500, 500)
    until_cleaned(kafka.data, 4400)
    # It has cleaned what we wrote, and up to 600 records behind its checkpoint not yet.
    assert len(rows(kafka.bootstrap)) < len(second) + 500
    kafka.process.stop()
