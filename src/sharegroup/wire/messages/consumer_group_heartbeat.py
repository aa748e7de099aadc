"""ConsumerGroupHeartbeat (API key 68).

Source: Kafka's message definitions ConsumerGroupHeartbeatRequest.json,
ConsumerGroupHeartbeatResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.messages.ranges import PartitionRanges
from sharegroup.wire.schema import Message, array, boolean, i16, i32, message, string, struct, uuid


@message
class TopicPartitions(Message):
    """Partitions of one topic that the member owns, or is assigned."""

    topic_id: UUID = uuid()
    partitions: Sequence[int] = array("i32")
    key_ranges: Sequence[PartitionRanges] = array(PartitionRanges, tag=9000)
    """Ours: partitions that the member has in part (KIP-X); the others it has whole."""


@message
class ConsumerGroupHeartbeatRequest(Message):
    """ConsumerGroupHeartbeatRequest, versions 0-1."""

    FLEXIBLE = 0

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = i32()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = i32(default=-1)
    subscribed_topic_names: Sequence[str] | None = array("string", default=None, nullable="0+")
    subscribed_topic_regex: str | None = string("1+", default=None, nullable="1+")
    server_assignor: str | None = string(default=None, nullable="0+")
    topic_partitions: Sequence[TopicPartitions] | None = array(
        TopicPartitions, default=None, nullable="0+"
    )
    takes_key_ranges: bool = boolean(tag=9000)
    """Ours: the member may be assigned a part of a partition's keys (KIP-X)."""
    cooperative: bool = boolean(tag=9001)
    """Ours: with ``takes_key_ranges``: the members that share a partition fetch from it in turns,
    whatever the keys (KIP-X, "Cooperative Fetch")."""


@message
class Assignment(Message):
    """All partitions that the member is assigned."""

    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


@message
class ConsumerGroupHeartbeatResponse(Message):
    """ConsumerGroupHeartbeatResponse, versions 0-1."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = i32()
    heartbeat_interval_ms: int = i32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")
