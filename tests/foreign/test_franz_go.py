"""franz-go, driven by a small program of ours (`go/main.go`): its share consumer, its consumer in a
group by KIP-848, and its transactions. The classic group is in test_consumer_groups_classic.py.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType

from tests.foreign.go_program import BUILD_SECONDS, build_go
from tests.foreign.test_transactions import committed
from tests.servers.admin import ADMIN_SECONDS, Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process

VALUES = ["accept", "release", "reject", "renew", "unmarked", "accept", "last"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go(tmp_path_factory.mktemp("go"))


def run(program: Path, broker: RunningServer, *arguments: str) -> list[dict[str, Any]]:
    """The events that the program printed."""
    done = subprocess.run(
        [str(program), broker.bootstrap, *arguments], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(BUILD_SECONDS + 500)
@pytest.mark.parametrize("mode", ["batches", "strict"])
def test_each_answer_to_a_record(
    broker: RunningServer, program: Path, topic: str, group: str, mode: str
) -> None:
    produce(broker.bootstrap, topic, [value.encode() for value in VALUES])
    events = run(program, broker, topic, group, str(len(VALUES)), mode)

    records = [event for event in events if event["event"] == "record"]
    seen = {value: [r["delivery"] for r in records if r["value"] == value] for value in VALUES}
    assert seen == {
        "accept": [1, 1],  # two records of this value
        "release": [1, 2],
        "reject": [1],
        "renew": [1],
        "unmarked": [1],
        "last": [1],
    }
    if mode == "strict":
        assert max(record["batch"] for record in records) <= 2, "record_limit is a limit"
    results = [event["error"] for event in events if event["event"] == "acknowledged"]
    assert set(results) == {""}
    assert events[-1]["event"] == "closed"

    produce(broker.bootstrap, topic, [b"after"])
    after = run(program, broker, topic, group, "1")
    assert [e["value"] for e in after if e["event"] == "record"] == ["after"], "all else is settled"


@pytest.mark.timeout(BUILD_SECONDS + 500)
def test_four_partitions_to_the_last_record(
    broker: RunningServer, admin: Admin, program: Path, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=4)
    produce(broker.bootstrap, name, [b"%d" % number for number in range(2_000)])
    events = run(program, broker, name, group, "2000")
    records = [event for event in events if event["event"] == "record"]
    assert sorted(int(record["value"]) for record in records) == list(range(2_000))
    assert {record["partition"] for record in records} == {0, 1, 2, 3}


@pytest.mark.timeout(BUILD_SECONDS + 500)
def test_a_group_by_kip_848(
    broker: RunningServer, admin: Admin, program: Path, topic: str, name: str
) -> None:
    produce(broker.bootstrap, topic, [b"0", b"1", b"2"])
    events = run(program, broker, topic, name, "3", "consumer")
    assert [event["value"] for event in events if event["event"] == "record"] == ["0", "1", "2"]
    described = admin.client.describe_consumer_groups([name])[name].result(ADMIN_SECONDS)
    assert described.type == ConsumerGroupType.CONSUMER
    produce(broker.bootstrap, topic, [b"3"])
    events = run(program, broker, topic, name, "1", "consumer")
    assert [event["value"] for event in events if event["event"] == "record"] == ["3"], "it commits"


@pytest.mark.timeout(BUILD_SECONDS + 500)
def test_transactions_copy_records_and_commit_their_offsets(
    broker: RunningServer, admin: Admin, program: Path, topic: str, name: str
) -> None:
    admin.create_topic(f"{topic}-done")
    produce(broker.bootstrap, topic, [b"%d" % number for number in range(30)])
    events = run(program, broker, topic, name, "30", "transactions")
    decided = [event["committed"] for event in events if event["event"] == "transaction"]
    assert decided[:2] == [False, True]
    assert committed(broker, f"{topic}-done") == [b"%d" % number for number in range(30)]
    produce(broker.bootstrap, topic, [b"30"])
    run(program, broker, topic, name, "1", "transactions")
    assert committed(broker, f"{topic}-done")[29:] == [b"29", b"30"], "nothing was copied twice"
