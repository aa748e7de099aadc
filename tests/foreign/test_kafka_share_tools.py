"""kafka-verifiable-share-consumer in its three modes, kafka-share-consumer-perf-test and what
kafka-console-share-consumer can print of a record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.apache_kafka.tools import KafkaTools, run_tool
from tests.servers.admin import SILENT, Admin, produce
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka

VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
RECORDS = 600


def verifiable(
    broker: RunningServer, topic: str, group: str, *options: str
) -> list[dict[str, Any]]:
    """The events that the tool prints, a line of JSON each."""
    output = run_tool(
        VERIFIABLE,
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", group),
        *options,
    )
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_the_verifiable_share_consumer(
    broker: RunningServer, admin: Admin, name: str, mode: str
) -> None:
    admin.create_topic(name, partitions=2)
    produce(broker.bootstrap, name, [b"%d" % number for number in range(RECORDS)])
    events = verifiable(
        broker,
        name,
        name,
        *("--max-messages", str(RECORDS), "--acknowledgement-mode", mode, "--verbose"),
        *("--offset-reset-strategy", "earliest"),
    )

    names = [event["name"] for event in events]
    assert names[:2] == ["startup_complete", "offset_reset_strategy_set"]
    assert names[-1] == "shutdown_complete"
    values = [event["value"] for event in events if event["name"] == "record_data"]
    assert sorted(map(int, values)) == list(range(RECORDS))
    consumed = [event["count"] for event in events if event["name"] == "records_consumed"]
    assert sum(consumed) == RECORDS
    done = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert {event["success"] for event in done} == {True}
    assert sum(event["count"] for event in done) == RECORDS


def test_the_performance_tool_with_several_threads(
    tools: KafkaTools, admin: Admin, broker: RunningServer, name: str, group: str
) -> None:
    admin.create_topic(name, partitions=4)
    produce(broker.bootstrap, name, [b"x" * 100] * 20_000)
    output = run_tool(
        "org.apache.kafka.tools.ShareConsumerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", name, "--group", group),
        *("--num-records", "20000", "--threads", "3", "--timeout", "60000", "--hide-header"),
    )
    *_, fetched, _fetch_ms = [field.strip() for field in output.splitlines()[-1].split(",")]
    assert int(fetched) == 20_000


def test_the_console_shows_all_fields_of_a_record(
    broker: RunningServer, tools: KafkaTools, topic: str, group: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **SILENT})
    producer.produce(
        topic, b"v", key=b"k", headers=[("colour", b"red")], timestamp=1_700_000_000_000
    )
    assert producer.flush(30) == 0
    shown = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    options = [word for name in shown for word in ("--formatter-property", f"print.{name}=true")]
    [line] = tools.share_console(topic, group, 1, *options)
    assert line.split("\t") == [
        "CreateTime:1700000000000",
        "Partition:0",
        "Offset:0",
        "Delivery:1",
        "Epoch:NOT_PRESENT",
        "colour:red",
        "k",
        "v",
    ]
