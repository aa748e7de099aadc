"""kafka-dump-log as the judge of our segment files and of `__share_group_state`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType

from tests.apache_kafka.tools import dump_log, dump_share_state
from tests.foreign.share_reader import receive, share_consumer
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4  # RecordState ids in the state log
SEGMENT = "00000000000000000000"
STATE_RECORD = re.compile(r"^\|.* key: (\{.*?\}) payload: (\{.*\})$", re.MULTILINE)


def segment(server: RunningServer, topic: str, partition: int = 0, kind: str = "log") -> Path:
    return next(server.data.rglob(f"{topic}-{partition}/{SEGMENT}.{kind}"))


def share_state(server: RunningServer, group: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every state record of one group, as Kafka decodes it: (key, value), oldest first."""
    records: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for log in sorted(server.data.rglob(f"__share_group_state-*/{SEGMENT}.log")):
        for key, value in STATE_RECORD.findall(dump_share_state(log)):
            if json.loads(key)["data"]["groupId"] == group:
                records.append((json.loads(key), json.loads(value)))
    return records


def test_a_segment_holds_valid_batches_with_running_offsets(
    broker: RunningServer, topic: str
) -> None:
    for start in range(0, 300, 100):
        produce(broker.bootstrap, topic, (b"record %d" % n for n in range(start, start + 100)))

    dumped = dump_log(segment(broker, topic), "--deep-iteration", "--print-data-log")

    assert set(re.findall(r"isvalid: (\w+)", dumped)) == {"true"}
    assert re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE) == [str(n) for n in range(300)]
    assert re.findall(r"payload: (record \d+)$", dumped, re.MULTILINE) == [
        f"record {n}" for n in range(300)
    ]


def test_indexes_pass_the_sanity_check(own_broker: RunningServer, name: str) -> None:
    Admin(own_broker.bootstrap).create_topic(name)
    for start in range(0, 3000, 500):
        values = (b"%d " % n + b"x" * 200 for n in range(start, start + 500))
        produce(own_broker.bootstrap, name, values)
    own_broker.stop()

    offsets, times = (segment(own_broker, name, kind=kind) for kind in ("index", "timeindex"))
    assert "passed sanity check" in dump_log(offsets, "--index-sanity-check")
    assert "Mismatches" not in dump_log(offsets, "--verify-index-only")
    assert re.findall(r"offset: \d+ position: \d+", dump_log(offsets))
    assert "Found" not in dump_log(times)


def test_accepted_released_and_rejected_records_are_in_the_state_log(
    broker: RunningServer, topic: str, group: str
) -> None:
    produce(broker.bootstrap, topic, [b"accept", b"release", b"reject", b"hold"])
    verbs = {
        b"accept": AcknowledgeType.ACCEPT,
        b"release": AcknowledgeType.RELEASE,
        b"reject": AcknowledgeType.REJECT,
    }
    with share_consumer(broker.bootstrap, group, topic, explicit=True) as consumer:
        taken = 0
        while taken < 4:
            for message in receive(consumer):
                taken += 1
                if message.value() in verbs:
                    consumer.acknowledge(message, verbs[message.value()])
        consumer.commit_sync(20)
        records = share_state(broker, group)

    kinds = [key["type"] for key, _value in records]
    assert kinds[0] == "0", "a snapshot comes first"
    assert set(kinds) == {"0", "1"}
    start = records[-1][1]["data"]["startOffset"]
    states = folded(value["data"] for _key, value in records)
    # Kafka moves the start with the next write, so the accepted record may still be listed.
    assert start == 1 or (start == 0 and states[0] == (ACKNOWLEDGED, 1))
    assert states[1] == (AVAILABLE, 1)
    assert states[2] == (ARCHIVED, 1)
    assert 3 not in states, "acquired records are not durable state"


def folded(values: Iterable[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    """The state and delivery count of each offset, after a snapshot and its updates."""
    states: dict[int, tuple[int, int]] = {}
    for value in values:
        for batch in value["stateBatches"]:
            for offset in range(batch["firstOffset"], batch["lastOffset"] + 1):
                states[offset] = (batch["deliveryState"], batch["deliveryCount"])
    return states
