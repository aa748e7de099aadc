"""A consumer group that reads some records."""

from __future__ import annotations

from confluent_kafka import Consumer

from tests.servers.admin import SILENT


def read(bootstrap: str, group: str, topic: str, count: int) -> None:
    """Let a consumer group read and commit so many records."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", **SILENT}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    for _ in range(count):
        while consumer.poll(1) is None:
            continue
    consumer.commit(asynchronous=False)
    consumer.close()
