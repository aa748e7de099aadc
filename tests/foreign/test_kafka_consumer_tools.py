"""Kafka's tools for plain consumers and for logs: the verifiable producer and consumer, the
performance tools, kafka-get-offsets, kafka-delete-records, kafka-broker-api-versions and
kafka-configs of brokers. They run one after the other in one JVM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from tests.apache_kafka.tools import run_tool
from tests.foreign.tool_shell import Printed
from tests.servers.admin import Admin, produce
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
RECORDS = 500


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A broker whose groups do not wait for further members."""
    options = ("group.initial.rebalance.delay.ms=0",)
    with SharegroupServer(tmp_path_factory.mktemp("broker"), *options) as server:
        yield server


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A fresh topic with three partitions."""
    admin.create_topic(name, partitions=3)
    return name


def events(text: str) -> list[dict[str, Any]]:
    """The lines of a verifiable tool, each of them JSON."""
    return [json.loads(line) for line in text.splitlines()]


def verifiably_produced(broker: RunningServer, topic: str) -> set[tuple[int, int, str]]:
    """Partition, offset and value of each record that kafka-verifiable-producer has sent.

    It has a JVM of its own: it reports what was acknowledged when its JVM ends.
    """
    told = events(
        run_tool(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", broker.bootstrap, "--topic", topic),
            *("--max-messages", str(RECORDS), "--repeating-keys", "7", "--acks", "-1"),
        )
    )
    (summary,) = [event for event in told if event["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (RECORDS, RECORDS)
    assert "producer_send_error" not in {event["name"] for event in told}
    return {
        (event["partition"], event["offset"], event["value"])
        for event in told
        if event["name"] == "producer_send_success"
    }


def test_the_verifiable_consumer_gets_what_the_verifiable_producer_sent(
    broker: RunningServer, printed: Printed, topic: str
) -> None:
    sent = verifiably_produced(broker, topic)
    assert len(sent) == RECORDS

    def consume(records: int, *options: str) -> list[dict[str, Any]]:
        return events(
            printed(
                *("kafka-verifiable-consumer", "--topic", topic, "--group-id", topic),
                *("--max-messages", str(records), "--reset-policy", "earliest", "--verbose"),
                *options,
            )
        )

    # The second member goes on where the first one has committed.
    first = consume(200)
    second = consume(RECORDS - 200, "--group-instance-id", "two")
    for told in (first, second):
        (assigned,) = [event for event in told if event["name"] == "partitions_assigned"]
        assert sorted(one["partition"] for one in assigned["partitions"]) == [0, 1, 2]
        commits = [event for event in told if event["name"] == "offsets_committed"]
        assert {event["success"] for event in commits} == {True}
        assert told[-1]["name"] == "shutdown_complete"
    records = [event for event in (*first, *second) if event["name"] == "record_data"]
    got = [(event["partition"], event["offset"], event["value"]) for event in records]
    assert len(got) == RECORDS, "no record is there twice"
    assert set(got) == sent


def test_the_performance_tools_move_every_record(printed: Printed, topic: str) -> None:
    sizes = ("--record-size", "100", "--throughput", "-1", "--reporting-interval", "60000")
    said = printed("kafka-producer-perf-test", "--topic", topic, "--num-records", "20000", *sizes)
    assert said.startswith("20000 records sent"), said
    said = printed(
        *("kafka-consumer-perf-test", "--topic", topic, "--num-records", "20000"),
        *("--timeout", "30000", "--hide-header"),
    )
    assert said.split(",")[4].strip() == "20000", said


def test_the_latency_tool_gets_back_what_it_sends(printed: Printed, topic: str) -> None:
    said = printed(
        *("kafka-e2e-latency", "--topic", topic, "--num-records", "50"),
        *("--producer-acks", "all", "--record-size", "40"),
    )
    assert re.search(r"^Percentiles: 50th = \d+, 99th = \d+", said, re.MULTILINE), said


def test_offsets_are_listed_and_records_deleted(
    broker: RunningServer, printed: Printed, topic: str, tmp_path: Path
) -> None:
    for partition in range(3):
        produce(broker.bootstrap, topic, [b"x"] * (10 + partition), partition)

    def offsets(*options: str) -> list[str]:
        return printed("kafka-get-offsets", "--topic-partitions", f"{topic}:0-3", *options).split()

    assert offsets() == [f"{topic}:{n}:{10 + n}" for n in range(3)]
    assert offsets("--time", "earliest") == [f"{topic}:{n}:0" for n in range(3)]
    wanted = [{"topic": topic, "partition": 0, "offset": 4}]
    wanted += [{"topic": topic, "partition": 2, "offset": -1}]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))

    said = printed("kafka-delete-records", "--offset-json-file", str(file))
    assert f"partition: {topic}-0\tlow_watermark: 4" in said
    assert f"partition: {topic}-2\tlow_watermark: 12" in said
    assert offsets("--time", "earliest") == [f"{topic}:0:4", f"{topic}:1:0", f"{topic}:2:12"]
    assert offsets("--time", "max-timestamp")[1].startswith(f"{topic}:1:")

    file.write_text(json.dumps({"partitions": [{**wanted[0], "offset": 99}], "version": 1}))
    said = printed("kafka-delete-records", "--offset-json-file", str(file))
    assert "OffsetOutOfRangeException" in said


def test_java_is_told_the_table_of_apis(printed: Printed) -> None:
    said = printed("kafka-broker-api-versions")
    found = {
        int(key): (int(first), int(last or first))
        for key, first, last in re.findall(r"\((\d+)\): (\d+)(?: to (\d+))? \[usable: \d+\]", said)
    }
    served = {key: (row.versions.first, row.versions.last) for key, row in API_TABLE.items()}
    served[0] = (0, served[0][1])  # told so for old clients
    assert found == served, "each row has a version that this Java client can use"


def test_the_configs_of_a_broker(printed: Printed) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    said = printed("kafka-configs", "--describe", "--all", *entity)
    assert re.search(r"^  group\.initial\.rebalance\.delay\.ms=0 ", said, re.MULTILINE), said


def test_a_default_of_every_broker_and_a_value_of_one(printed: Printed) -> None:
    """As docs/deploy.md has it."""
    setting = "log.retention.ms"
    every = ("--entity-type", "brokers", "--entity-default")
    one = ("--entity-type", "brokers", "--entity-name", "1")

    def told(entity: tuple[str, ...]) -> list[str]:
        said = printed("kafka-configs", "--describe", *entity).splitlines()
        return [line.strip() for line in said if line.startswith("  ")]

    printed("kafka-configs", "--alter", *every, "--add-config", f"{setting}=70000")
    printed("kafka-configs", "--alter", *one, "--add-config", f"{setting}=80000")
    default = "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=70000"
    own = "DYNAMIC_BROKER_CONFIG:log.retention.ms=80000"
    shown = f"{setting}=70000 sensitive=false synonyms={{{default}}}"
    assert told(every) == [shown]
    without = "DEFAULT_CONFIG:log.retention.hours=168"
    sources = f"{own}, {default}, {without}"
    assert told(one) == [f"{setting}=80000 sensitive=false synonyms={{{sources}}}"]
    assert shown in PAGE.read_text()
    printed("kafka-configs", "--alter", *one, "--delete-config", setting)
    assert told(every) == [shown]
    printed("kafka-configs", "--alter", *every, "--delete-config", setting)
    assert told(every) == []
