"""`__consumer_offsets` both ways: kafka-dump-log reads what we write, we read what Apache Kafka
writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.wire.batch import decode_batch, parse_headers
from sharegroup.wire.internal.groups import decode_record
from tests.apache_kafka.broker import KafkaBroker
from tests.apache_kafka.tools import KafkaTools, dump_log
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers.admin import Admin, produce
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

RECORD = re.compile(r"^\|.* key: (\{.*?\}) payload: (\{.*\})$", re.MULTILINE)
R = TypeVar("R")
EVERY_RECORD_KIND = {"10", "11", "12", "13", "14", "15"}


def test_kafka_reads_rewritten_groups(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path, "group.share.records.per.rewrite=5") as server:
        Admin(server.bootstrap).create_topic("flights", 2)
        Admin(server.bootstrap).start_group_at_earliest("pilots")
        produce(server.bootstrap, "flights", [b"one"])
        with share_consumer(server.bootstrap, "pilots", "flights", explicit=False) as consumer:
            receive_accepting(consumer, 1)
            (log,) = server.data.rglob("__consumer_offsets-0/*.log")
            dumped = dump_log(log, "--offsets-decoder")
    records = [(json.loads(key), json.loads(value)) for key, value in RECORD.findall(dumped)]
    assert {key["type"] for key, _ in records} == EVERY_RECORD_KIND
    assert {key["data"]["groupId"] for key, _ in records} == {"pilots"}
    written = {key["type"]: value["data"] for key, value in records}
    assert written["10"]["subscribedTopicNames"] == ["flights"]
    (initialized,) = written["15"]["initializedTopics"]
    assert (initialized["topicName"], initialized["partitions"]) == ("flights", [0, 1])
    assert written["14"]["assignedPartitions"] == [
        {"topicId": initialized["topicId"], "partitions": [0, 1]}
    ]


def test_our_broker_reads_kafkas_records(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path) as kafka:
        Admin(kafka.bootstrap).create_topic("flights", 2)
        Admin(kafka.bootstrap).start_group_at_earliest("pilots")
        produce(kafka.bootstrap, "flights", [b"one"])
        with share_consumer(kafka.bootstrap, "pilots", "flights", explicit=False) as consumer:
            receive_accepting(consumer, 1)
            tools = KafkaTools(kafka.bootstrap)
            state = tools.share_groups("--describe", "--group", "pilots", "--state", "--verbose")
            (log,) = tmp_path.rglob("__consumer_offsets-0/*.log")
            records = group_records(log, decode_record)
    groups = ShareGroups(lambda _: GroupSettings())
    for record in records:
        groups.table.replay(record)
    group = groups.describe("pilots")
    row: list[Any] = state.splitlines()[-1].split()
    assert (row[0], row[3]) == ("pilots", str(group.state))
    assert row[4:7] == [str(group.epoch), str(group.assignment_epoch), str(len(group.members))]
    (member,) = group.members
    (topic,) = group.initialized
    assert member.subscribed_topics == ("flights",)
    assert member.epoch == group.assignment_epoch
    assert (topic.name, topic.partitions) == ("flights", (0, 1))
    assert member.assignment == {topic.topic_id: (0, 1)}


def group_records(log: Path, decode: Callable[[bytes, bytes | None], R | None]) -> list[R]:
    """Records of groups of one type in one segment file."""
    raw = log.read_bytes()
    found: list[R] = []
    at = 0
    for header in parse_headers(raw):
        for _, _, key, value in decode_batch(memoryview(raw)[at : at + header.length]):
            record = None if key is None else decode(key, value)
            if record is not None:
                found.append(record)
        at += header.length
    return found
