"""Apache Kafka opens a folder whose cleaning was interrupted by SIGKILL, and reads what we read."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.kills.compacting import TOPIC
from tests.kills.journal import Tail
from tests.kills.round import Worker
from tests.kills.table import rows
from tests.kills.test_cleaner_kills import COMPACTED, LOOK_S, in_work, wait_for_cleaner
from tests.kills.working import pause
from tests.servers.admin import Admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
FOLDER = f"{TOPIC}-0"
IDENTITY = "partition.metadata"
NO_CLEANER = "log.cleaner.enable=false"
WAIT_S = 200
"""Enough on a machine with much other work: JVMs start one after the other there."""
RECORDS = 3_000


def written(folder: Path, server: RunningServer, *kinds: str, least: int) -> list[Worker]:
    """Writers that have had so many records confirmed."""
    workers = [Worker(folder, server.bootstrap, kind, "compacting", kind) for kind in kinds]
    tail, count = Tail(folder), 0
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + WAIT_S
    while count < least:
        count += sum(line.what == "acked" for line in tail.lines())
        assert time.monotonic() < deadline, "the writers do not come on"
        pause(LOOK_S)
    return workers


def replace_log(source: Path, target: Path) -> None:
    """Put a partition's files in the place of another one's, which keeps its topic id."""
    for path in target.iterdir():
        if path.name != IDENTITY:
            path.unlink()
    for path in source.iterdir():
        if path.name != IDENTITY:
            shutil.copy(path, target)


def test_kafka_opens_what_our_cleaner_has_left(tmp_path: Path) -> None:
    ours = SharegroupServer(tmp_path / "ours", "log.cleaner.backoff.ms=20")
    ours.start()
    Admin(ours.bootstrap).create_topic(TOPIC, **COMPACTED)
    workers = written(tmp_path, ours, "plain", "transactions", least=RECORDS)
    table = ours.data / FOLDER
    for _ in range(20):
        wait_for_cleaner(table)
        ours.kill()
        if in_work(table):
            break
        ours.start()
    for worker in workers:
        worker.strike()
    assert in_work(table), "no kill met the cleaner at work"

    kafka = KafkaBroker(tmp_path / "kafka", NO_CLEANER)
    kafka.start()
    Admin(kafka.bootstrap).create_topic(TOPIC, cleanup_policy="compact")
    deadline = time.monotonic() + WAIT_S
    while not (kafka.data / FOLDER / IDENTITY).exists():
        assert time.monotonic() < deadline, "Kafka makes no folder"
        pause(LOOK_S)
    kafka.kill()
    replace_log(table, kafka.data / FOLDER)
    kafka.start()
    theirs = rows(kafka.bootstrap)
    kafka.kill()

    again = SharegroupServer(tmp_path / "ours", NO_CLEANER)
    with again:
        found = rows(again.bootstrap)
    # Ours may have ended a transaction that Kafka knows nothing of, and shows what is behind it.
    assert len(theirs) > 20
    assert found[: len(theirs)] == theirs
