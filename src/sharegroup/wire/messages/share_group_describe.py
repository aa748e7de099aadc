"""ShareGroupDescribe (API key 77).

Source: Kafka's message definitions ShareGroupDescribeRequest.json, ShareGroupDescribeResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, boolean, i16, i32, message, string, struct, uuid


@message
class ShareGroupDescribeRequest(Message):
    """ShareGroupDescribeRequest, versions 1-1."""

    FLEXIBLE = 1

    group_ids: Sequence[str] = array("string")
    include_authorized_operations: bool = boolean()


@message
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: Sequence[int] = array("i32")


@message
class Assignment(Message):
    """All partitions that a member is assigned."""

    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


@message
class Member(Message):
    """A member of a share group, with its subscription and its assignment."""

    member_id: str = string()
    rack_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = i32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")
    assignment: Assignment | None = struct(Assignment)
    silent_ms: int = i32(tag=9000, default=-1)
    """Ours: how long ago its last heartbeat was, if it has missed one; -1: it has not."""
    session_left_ms: int = i32(tag=9001, default=-1)
    """Ours: how soon a member that has missed a heartbeat is taken for gone."""


@message
class DescribedGroup(Message):
    """The description of one share group, or an error."""

    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = i32()
    assignment_epoch: int = i32()
    assignor_name: str = string()
    members: Sequence[Member] = array(Member)
    authorized_operations: int = i32(default=-2147483648)


@message
class ShareGroupDescribeResponse(Message):
    """ShareGroupDescribeResponse, versions 1-1."""

    FLEXIBLE = 1

    throttle_time_ms: int = i32()
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
