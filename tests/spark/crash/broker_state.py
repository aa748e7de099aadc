"""What a broker holds of a topic and a group, read without the Spark source: the log itself, the
lags, and the durable state of every record behind the group's start offset."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from sharegroup.client import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.wire import apis
from sharegroup.wire.messages.read_share_group_state import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)

READ_SECONDS = 120
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's durable state in one topic."""

    start_offsets: dict[int, int]
    records: dict[Place, tuple[int, int]]
    """State and delivery count of records at or behind the start offset that have one."""
    lags: list[int | None]


def log_of(bootstrap: str, topic: str, partitions: int) -> Iterator[tuple[Place, bytes]]:
    """Every record in the log of ``topic``; raises TimeoutError."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "checker"})
    try:
        for partition in range(partitions):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), READ_SECONDS)
            consumer.assign([TopicPartition(topic, partition, 0)])
            at = 0
            while at < end:
                message = consumer.poll(READ_SECONDS)
                if message is None or message.error() is not None:
                    raise TimeoutError(f"{topic}-{partition} gives nothing at {at} of {end}")
                at = message.offset() + 1
                yield (partition, message.offset()), message.value()
    finally:
        consumer.close()


def group_state(bootstrap: str, group: str, topic: str) -> GroupState:
    """Ask the share coordinator, which is the only node; raises KafkaError."""
    return asyncio.run(_group_state(bootstrap, group, topic))


async def _group_state(bootstrap: str, group: str, topic: str) -> GroupState:
    async with Cluster(bootstrap) as cluster:
        known = await cluster.topic(topic)
        offsets = await Admin(cluster=cluster).list_share_group_offsets(group)
        # Who only looks asks in the epoch of the leader there is, which fences nobody.
        asked = [
            PartitionData(where.partition, max(state.leader_epoch, 0))
            for where, state in offsets.items()
            if where.topic == topic
        ]
        request = ReadShareGroupStateRequest(group, [ReadStateData(known.topic_id, asked)])
        response = await cluster.send_to_any(apis.READ_SHARE_GROUP_STATE, request)
    starts: dict[int, int] = {}
    records: dict[Place, tuple[int, int]] = {}
    for result in response.results[0].partitions:
        assert not result.error_code, result
        starts[result.partition] = result.start_offset
        for batch in result.state_batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                found = batch.delivery_state, batch.delivery_count
                records[result.partition, offset] = found
    return GroupState(starts, records, [state.lag for state in offsets.values()])
