"""Setting up topics and share groups on any server, through librdkafka's admin client."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

ADMIN_SECONDS = 120
SILENT = {"log_level": 0}  # a server that is killed on purpose is no news
ASKS_AGAIN = {"topic.metadata.refresh.interval.ms": 1000}
"""A broker of Apache Kafka that has just started may not know its controller yet. librdkafka's
admin client then waits for the next refresh of its metadata: five minutes, by default."""


class Admin:
    """Topics and configurations of one server."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = AdminClient({"bootstrap.servers": bootstrap, **SILENT, **ASKS_AGAIN})

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; underscores in the names of `configs` stand for dots."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, partitions, 1, config=settings)
        for done in self.client.create_topics([topic]).values():
            done.result(ADMIN_SECONDS)

    def delete_topic(self, name: str) -> None:
        for done in self.client.delete_topics([name]).values():
            done.result(ADMIN_SECONDS)

    def set_group(self, group: str, **configs: str) -> None:
        """Set configurations of a share group; underscores stand for dots."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
        for done in self.client.incremental_alter_configs([resource]).values():
            done.result(ADMIN_SECONDS)
        self._wait_until_set(group, {entry.name: entry.value for entry in entries})

    def _wait_until_set(self, group: str, wanted: dict[str, str | None]) -> None:
        """Apache Kafka's broker hears of what its controller has confirmed a moment later."""
        resource = ConfigResource(ResourceType.GROUP, group)
        deadline = time.monotonic() + ADMIN_SECONDS
        while time.monotonic() < deadline:
            (done,) = self.client.describe_configs([resource]).values()
            found = done.result(ADMIN_SECONDS)
            if all(name in found and found[name].value == wanted[name] for name in wanted):
                return
        raise TimeoutError(f"{group} does not show {wanted}")

    def start_group_at_earliest(self, group: str) -> None:
        """A share group begins at the end of its topics unless it is told this."""
        self.set_group(group, share_auto_offset_reset="earliest")


def partitions(producer: Producer, topic: str) -> list[int]:
    """The topic's partitions. A Kafka broker that has just started may be behind its controller,
    and name none for a while; raises TimeoutError.
    """
    deadline = time.monotonic() + ADMIN_SECONDS
    while time.monotonic() < deadline:
        described = producer.list_topics(topic, ADMIN_SECONDS).topics[topic]
        if described.partitions:
            return sorted(described.partitions)
    raise TimeoutError(f"{topic} has no partitions: {described.error}")


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes], partition: int | None = None
) -> None:
    """Produce these values, each one once, and wait until each is acknowledged; raises
    AssertionError.

    Without a ``partition`` they go round all partitions of the topic in turn. librdkafka's own
    partitioner stays with one partition for a batch, so on a slow machine some get nothing.
    """
    refused: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            refused.append(error)

    once = {"enable.idempotence": True}  # a batch whose answer is lost is sent again
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **once, **SILENT})
    turns = itertools.cycle(partitions(producer, topic) if partition is None else [partition])
    for value in values:
        producer.produce(topic, value, partition=next(turns), on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(60)
    assert not refused, refused[:3]
    assert left == 0, f"{left} records were not acknowledged in time"
