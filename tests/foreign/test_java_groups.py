"""Java's consumers of both group protocols, driven by a program of ours (`java/GroupWork.java`)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState

from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN, dump_log
from tests.foreign.test_consumer_groups_kip848 import OPTIONS
from tests.foreign.test_group_log_formats import RECORD
from tests.servers.admin import Admin, produce
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SOURCE = Path(__file__).parent / "java" / "GroupWork.java"
MIGRATIONS = ("fly-migration-RangeAssignor", "fly-migration-CooperativeStickyAssignor")
SEEN = {
    "rebalance": "revoked 2, lost 0",
    "pattern": "fly fly-too",
    "cooperative": "revoked 2, lost 0",
    "static-classic": "told again 0",
    "static-consumer": "told again 0",
    "enforced": "generations 1",
    "closed-classic": "then assigned 4",
    "closed-consumer": "then assigned 4",
    "migration-RangeAssignor": "different 100, again without a loss 0",
    "migration-CooperativeStickyAssignor": "different 100, again without a loss 0",
}
CLASSIC_GROUP = "2"
OFFSET = "1"
CONSUMER_MEMBER, CONSUMER_GROUP = "5", "3"


def test_consumers_of_both_protocols(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path, *OPTIONS) as server:
        admin = Admin(server.bootstrap)
        admin.create_topic("fly", 4)
        admin.create_topic("fly-too", 1)
        admin.create_topic("other", 1)
        produce(server.bootstrap, "fly", [b"%d" % number for number in range(100)])
        assert dict(line.split(": ") for line in work(server, tmp_path)) == SEEN
        groups = [f"fly-{scenario}" for scenario in SEEN]
        described = admin.client.describe_consumer_groups(groups)
        states = {group: described[group].result(10).state for group in groups}
        left = {"fly-static-classic", "fly-static-consumer"}
        assert {group for group in groups if states[group] != ConsumerGroupState.EMPTY} <= left
        (log,) = server.data.rglob("__consumer_offsets-0/*.log")
        dumped = dump_log(log, "--offsets-decoder")
    for group in MIGRATIONS:
        check_migration(dumped, group)


def check_migration(dumped: str, group: str) -> None:
    """What Kafka reads of a group that changed its protocol: the classic group is deleted, then
    come the records of the consumer group. All offsets are there."""
    records = [(json.loads(key), json.loads(value)) for key, value in RECORD.findall(dumped)]
    own = [(key, value) for key, value in records if named(key) == group]
    kinds = [key["type"] for key, _ in own]
    assert {CLASSIC_GROUP, OFFSET, CONSUMER_GROUP, CONSUMER_MEMBER} <= set(kinds)
    assert max(at for at, kind in enumerate(kinds) if kind == CLASSIC_GROUP) < kinds.index(
        CONSUMER_GROUP
    )
    assert re.search(rf'key: {{"type":"2","data":{{"group":"{group}"}}}} payload: <DELETE>', dumped)
    committed = {
        key["data"]["partition"]: value["data"]["offset"] for key, value in own if is_offset(key)
    }
    assert sorted(committed) == [0, 1, 2, 3]
    assert sum(committed.values()) == 100


def named(key: dict[str, dict[str, str]]) -> str:
    return key["data"].get("group") or key["data"].get("groupId", "")


def is_offset(key: dict[str, object]) -> bool:
    return key["type"] == OFFSET


def work(server: SharegroupServer, folder: Path) -> list[str]:
    """The lines that the program printed."""
    program = compile_java(SOURCE, folder)
    command = [java_command(), *SHORT_RUN, QUIET, "-cp", program, "GroupWork"]
    done = subprocess.run(
        [*command, server.bootstrap, "fly", "fly"],
        capture_output=True,
        text=True,
        timeout=500,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
