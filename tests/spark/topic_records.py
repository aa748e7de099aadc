"""The records of a topic as a plain consumer sees them."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.servers.running import RunningServer

WAIT_SECONDS = 400


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int


def records_of(server: RunningServer, topic: str, count: int) -> list[Record]:
    """So many records of a topic, from its beginning; raises TimeoutError."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "none"})
    described = consumer.list_topics(topic, WAIT_SECONDS).topics[topic]
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in described.partitions])
    found: list[Record] = []
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while len(found) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} records are there")
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                headers = tuple(message.headers() or ())
                found.append(Record(message.key(), message.value(), headers, message.partition()))
    finally:
        consumer.close()
    return found
