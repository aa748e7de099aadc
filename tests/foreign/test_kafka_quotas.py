"""Quotas set by Kafka's own tool and noticed by Kafka's own clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, ThrottleEvent

from tests.foreign.tool_shell import Printed, Tool
from tests.servers.running import RunningServer

pytestmark = pytest.mark.kafka


@pytest.fixture
def slow(printed: Printed, name: str) -> Iterator[str]:
    """A client id with a quota."""
    of = ("--entity-type", "clients", "--entity-name", name)
    printed("kafka-configs", "--alter", *of, "--add-config", "producer_byte_rate=100000")
    yield name
    printed("kafka-configs", "--alter", *of, "--delete-config", "producer_byte_rate")


@pytest.mark.parametrize(
    ("kind", "quota", "value", "shown"),
    [
        ("clients", "producer_byte_rate", "1024000", "1024000.0"),
        ("clients", "consumer_byte_rate", "2048", "2048.0"),
        ("clients", "request_percentage", "250.5", "250.5"),
        ("clients", "controller_mutation_rate", "3", "3.0"),
        ("users", "producer_byte_rate", "4096", "4096.0"),
        ("ips", "connection_creation_rate", "1000", "1000.0"),
    ],
)
def test_kafka_configs_sets_describes_and_removes(
    printed: Printed, name: str, kind: str, quota: str, value: str, shown: str
) -> None:
    entity = name if kind != "ips" else "10.11.12.13"
    for whose in (("--entity-name", entity), ("--entity-default",)):
        of = ("--entity-type", kind, *whose)
        printed("kafka-configs", "--alter", *of, "--add-config", f"{quota}={value}")
        described = printed("kafka-configs", "--describe", *of)
        assert f"{quota}={shown}" in described
        printed("kafka-configs", "--alter", *of, "--delete-config", quota)
        assert quota not in printed("kafka-configs", "--describe", *of)


def test_kafka_configs_says_what_is_wrong(run: Tool, name: str) -> None:
    of = ("kafka-configs", "--alter", "--entity-type", "clients", "--entity-name", name)
    ran = run(*of, "--add-config", "producer_byte_rate=-1")
    assert ran.status == 1
    assert "Quota producer_byte_rate must be greater than 0" in ran.stdout + ran.stderr


def test_a_producer_of_kafka_measures_the_throttle(printed: Printed, topic: str, slow: str) -> None:
    said = printed(
        *("kafka-producer-perf-test", "--topic", topic, "--num-records", "115"),
        *("--record-size", "10000", "--throughput", "-1", "--print-metrics"),
        *("--command-property", f"client.id={slow}"),
    )
    [line] = [line for line in said.splitlines() if "produce-throttle-time-max" in line]
    assert float(line.rpartition(":")[2]) > 100


def test_librdkafka_is_told_of_the_throttle(broker: RunningServer, topic: str, slow: str) -> None:
    told: list[ThrottleEvent] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "client.id": slow, "throttle_cb": told.append}
    )
    for _ in range(12):
        producer.produce(topic, bytes(100_000))
        assert producer.flush(60) == 0
    producer.poll(0)
    assert told
    assert max(event.throttle_time for event in told) > 0.1
