"""The log of record states, ``__share_group_state``, read by librdkafka and taken apart here.

Formats: Apache Kafka's ShareSnapshotKey/Value.json and ShareUpdateKey/Value.json, version 0.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.servers.admin import SILENT

STATE_TOPIC = "__share_group_state"
READ_SECONDS = 120
ACKNOWLEDGED, ARCHIVED = 2, 4
SNAPSHOT, UPDATE = 0, 1
_SNAPSHOT_HEAD = struct.Struct(">hiiiqqq")
"""Version, snapshot epoch, state epoch, leader epoch, start offset, two timestamps."""
_UPDATE_HEAD = struct.Struct(">hiiq")
"""Version, snapshot epoch, leader epoch, start offset."""
_ROW = struct.Struct(">qqbhx")
"""First offset, last offset, state, delivery count, no tagged fields."""


class Write(NamedTuple):
    """One record of the log: what became of a share partition in one step."""

    partition: int
    start: int
    rows: list[tuple[int, int, int, int]]
    """First offset, last offset, state, delivery count."""


def read_all(bootstrap: str, topic: str, partitions: int) -> list[Message]:
    """All records of a topic, partition by partition; raises TimeoutError."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **SILENT,
        }
    )
    found: list[Message] = []
    try:
        for partition in range(partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(READ_SECONDS)
                if message is None:
                    raise TimeoutError(f"{topic}-{partition} gives nothing")
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    break
    finally:
        consumer.close()
    return found


def writes_of(bootstrap: str, group: str) -> list[Write]:
    """What was written of the group's share partitions, in order."""
    found: list[Write] = []
    for message in read_all(bootstrap, STATE_TOPIC, 1):
        raw_key, value = message.key(), message.value()
        assert isinstance(raw_key, bytes)
        kind, size = struct.unpack_from(">hh", raw_key)
        if raw_key[4 : 4 + size].decode() == group and value is not None:
            (partition,) = struct.unpack(">i", raw_key[-4:])
            found.append(Write(partition, *_parsed(kind, value)))
    return found


def _parsed(kind: int, value: bytes) -> tuple[int, list[tuple[int, int, int, int]]]:
    """The start offset and the rows of a value."""
    head = _SNAPSHOT_HEAD if kind == SNAPSHOT else _UPDATE_HEAD
    start = head.unpack_from(value)[4 if kind == SNAPSHOT else 3]
    count = shift = 0
    position = head.size
    while True:
        byte = value[position]
        count |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            break
    rows = [_ROW.unpack_from(value, position + at * _ROW.size) for at in range(count - 1)]
    return start, [(first, last, state, times) for first, last, state, times in rows]
