"""Kafka's own test of exactly-once: its TransactionalMessageCopier copies a topic in transactions,
aborts some of them at random, and goes on after the broker was killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.apache_kafka.jars import KAFKA_WITH_TOOLS, class_path
from tests.apache_kafka.java import java_command
from tests.apache_kafka.tools import QUIET, SHORT_RUN
from tests.servers.admin import SILENT, Admin, produce
from tests.servers.running import RunningServer

pytestmark = [pytest.mark.kafka, pytest.mark.process]

MAIN_CLASS = "org.apache.kafka.tools.TransactionalMessageCopier"
RECORDS = 6000
PARTITIONS = 2
SECONDS = 120


def test_every_record_is_copied_once(own_broker: RunningServer, name: str) -> None:
    admin = Admin(own_broker.bootstrap)
    source, copy = f"{name}-in", f"{name}-out"
    for topic in (source, copy):
        admin.create_topic(topic, PARTITIONS)
    sent = [b"%d" % number for number in range(RECORDS)]
    produce(own_broker.bootstrap, source, sent)
    kills = [RECORDS // 4, RECORDS // 2]
    with copier(own_broker.bootstrap, source, copy) as output:
        for line in output:
            said = json.loads(line) if line.startswith("{") else {}
            if kills and said.get("totalProcessed", 0) >= kills[0]:
                kills.pop(0)
                own_broker.kill()
                own_broker.start()
    assert kills == []
    assert sorted(read_all(own_broker.bootstrap, copy)) == sorted(sent)
    written = read_all(own_broker.bootstrap, copy, "read_uncommitted")
    assert len(written) > RECORDS, "no transaction was aborted"


@contextmanager
def copier(bootstrap: str, source: str, copy: str) -> Iterator[IO[str]]:
    """The running tool's output. At the end it must have copied all."""
    words = [
        *("--broker-list", bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", copy, "--consumer-group", copy, "--transactional-id", copy),
        *("--transaction-size", "100", "--enable-random-aborts"),
        *("--group-mode", "--use-group-metadata"),
    ]
    command = [
        *("timeout", str(SECONDS), java_command(), *SHORT_RUN, QUIET),
        *("-cp", class_path(KAFKA_WITH_TOOLS), MAIN_CLASS, *words),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.stdout.read()
            status = process.wait()
    assert status == 0, f"the copier ended with {status}"


def read_all(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Every record's value that a reader of this isolation sees."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "not-used",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        **SILENT,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, at, OFFSET_BEGINNING) for at in range(PARTITIONS)])
        values: list[bytes] = []
        ended: set[int | None] = set()
        while len(ended) < PARTITIONS:
            message = consumer.poll(30)
            assert message is not None, f"{len(values)} records, then nothing for 30 s"
            if message.error() is not None:
                ended.add(message.partition())
            else:
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()
