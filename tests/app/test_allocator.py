"""The broker does not ask the system for cleared pages with each fetch."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from sharegroup.app.allocator import keep_freed_memory
from tests.servers.admin import SILENT, Admin, produce
from tests.servers.sharegroup_server import SharegroupServer

PARTITIONS = 4  # an answer holds a megabyte of each
RECORDS, RECORD_BYTES = 240, 100_000
READS = 5
PAGES = RECORDS * RECORD_BYTES // 4096
MINOR_FAULTS_FIELD = 7


@pytest.mark.process
def test_fetches_use_the_same_memory_again(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        Admin(server.bootstrap).create_topic("large", PARTITIONS)
        produce(server.bootstrap, "large", [b"x" * RECORD_BYTES] * RECORDS)
        read_all(server.bootstrap)
        before = faults(server)
        for _ in range(READS):
            read_all(server.bootstrap)
        assert faults(server) - before < READS * PAGES // 4


def test_what_the_environment_says_stays() -> None:
    assert not keep_freed_memory({"MALLOC_TRIM_THRESHOLD_": "0"})


def faults(server: SharegroupServer) -> int:
    """Pages that the system has given to the process without reading a file."""
    stat = Path(f"/proc/{server.process.pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[MINOR_FAULTS_FIELD])


def read_all(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", **SILENT})
    consumer.assign([TopicPartition("large", number, 0) for number in range(PARTITIONS)])
    read = 0
    while read < RECORDS:
        messages = consumer.consume(RECORDS - read, 30)
        assert messages, "no record in 30 s"
        read += sum(message.error() is None for message in messages)
    consumer.close()
