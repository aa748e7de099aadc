"""Java's KafkaShareConsumer in explicit mode, driven by a small program of ours
(`java/ShareProgram.java`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java
from tests.apache_kafka.tools import QUIET, SHORT_RUN
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "java" / "ShareProgram.java"
VALUES = ["accept", "release", "reject", "renew", "broken", "change", "accept", "last"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled program."""
    return compile_java(SOURCE, tmp_path_factory.mktemp("classes"))


def test_explicit_mode_with_record_limit(
    broker: RunningServer, program: str, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [value.encode() for value in VALUES])
    events = run(program, broker, topic, group)

    records = [event for event in events if event["event"] == "record"]
    broken = VALUES.index("broken")
    assert [event["offset"] for event in events if event["event"] == "broken"] == [broken]
    assert {record["offset"] for record in records} == set(range(len(VALUES))) - {broken}
    assert max(record["batch"] for record in records) <= 2, "record_limit is a limit"
    seen = {value: [r["delivery"] for r in records if r["value"] == value] for value in VALUES}
    assert seen == {
        "accept": [1, 1],  # two records of this value
        "release": [1, 2],
        "reject": [1],
        "renew": [1, 1],  # handed out again, and not delivered again
        "broken": [],  # Java could not read it; rejected by its offset
        "change": [1],
        "last": [1],
    }
    assert {event["error"] for event in events if event["event"] == "commit"} == {None}
    told = [event for event in events if event["event"] == "callback"]
    assert {event["error"] for event in told} == {None}
    assert {offset for event in told for offset in event["offsets"]} == set(range(len(VALUES)))
    locks = [event["ms"] for event in events if event["event"] == "lock"]
    assert set(locks) == {30_000}
    last = events[-5:]
    names = ["refused", "woken", "closed", "deleted", "deleted"]
    assert [event["event"] for event in last] == names
    assert last[0]["error"] == "IllegalStateException"
    assert last[2]["finished"] == len(VALUES)
    assert last[3]["error"] is None
    assert last[4]["error"] == "The group id does not exist."


def test_the_lock_timeout_is_the_groups_own(
    broker: RunningServer, admin: Admin, program: str, topic: str, group: str
) -> None:
    admin.set_group(group, share_record_lock_duration_ms="20000")
    produce(broker.bootstrap, topic, [b"renew"])
    events = run(program, broker, topic, group, records=1)
    assert {event["ms"] for event in events if event["event"] == "lock"} == {20_000}


def run(
    program: str, broker: RunningServer, topic: str, group: str, records: int = len(VALUES)
) -> list[dict[str, Any]]:
    """The events that the program printed."""
    done = subprocess.run(
        [
            *(java_command(), *SHORT_RUN, QUIET, "-cp", program, "ShareProgram"),
            *(broker.bootstrap, topic, group, str(records)),
        ],
        capture_output=True,
        text=True,
        timeout=800,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
