"""ConsumerGroupDescribe (API key 69).

Source: Kafka's message definitions ConsumerGroupDescribeRequest.json,
ConsumerGroupDescribeResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.messages.ranges import PartitionRanges
from sharegroup.wire.schema import (
    Message,
    array,
    boolean,
    i8,
    i16,
    i32,
    message,
    string,
    struct,
    uuid,
)


@message
class ConsumerGroupDescribeRequest(Message):
    """ConsumerGroupDescribeRequest, versions 0-1."""

    FLEXIBLE = 0

    group_ids: Sequence[str] = array("string")
    include_authorized_operations: bool = boolean()


@message
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: Sequence[int] = array("i32")
    key_ranges: Sequence[PartitionRanges] = array(PartitionRanges, tag=9000)
    """Ours: partitions that the member has in part (KIP-X); the others it has whole."""


@message
class Assignment(Message):
    """All partitions that a member has, or shall have."""

    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


@message
class Member(Message):
    """A member of a group, with its subscription and its assignments."""

    member_id: str = string()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = i32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")
    subscribed_topic_regex: str | None = string(default=None, nullable="0+")
    assignment: Assignment | None = struct(Assignment)
    target_assignment: Assignment | None = struct(Assignment)
    member_type: int = i8("1+", default=-1)


@message
class DescribedGroup(Message):
    """The description of one group, or the error in its place."""

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
class ConsumerGroupDescribeResponse(Message):
    """ConsumerGroupDescribeResponse, versions 0-1."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
