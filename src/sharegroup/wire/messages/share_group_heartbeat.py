"""ShareGroupHeartbeat (API key 76).

Source: Kafka's message definitions ShareGroupHeartbeatRequest.json,
ShareGroupHeartbeatResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, message, string, struct, uuid


@message
class ShareGroupHeartbeatRequest(Message):
    """ShareGroupHeartbeatRequest, versions 1-1."""

    FLEXIBLE = 1

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = i32()
    rack_id: str | None = string(default=None, nullable="0+")
    subscribed_topic_names: Sequence[str] | None = array("string", default=None, nullable="0+")


@message
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: Sequence[int] = array("i32")


@message
class Assignment(Message):
    """All partitions that the member is assigned."""

    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


@message
class ShareGroupHeartbeatResponse(Message):
    """ShareGroupHeartbeatResponse, versions 1-1."""

    FLEXIBLE = 1

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = i32()
    heartbeat_interval_ms: int = i32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")
