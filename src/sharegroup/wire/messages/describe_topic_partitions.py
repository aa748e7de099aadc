"""DescribeTopicPartitions (API key 75).

Source: Kafka's message definitions DescribeTopicPartitionsRequest.json,
DescribeTopicPartitionsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, boolean, i16, i32, message, string, struct, uuid


@message
class TopicRequest(Message):
    """A topic to describe."""

    name: str = string()


@message
class CursorRequest(Message):
    """The partition that the page begins with."""

    topic_name: str = string()
    partition_index: int = i32()


@message
class DescribeTopicPartitionsRequest(Message):
    """DescribeTopicPartitionsRequest, versions 0-0."""

    FLEXIBLE = 0

    topics: Sequence[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = i32(default=2000)
    cursor: CursorRequest | None = struct(CursorRequest, nullable="0+")


@message
class DescribeTopicPartitionsResponsePartition(Message):
    """A partition, its leader and its replicas."""

    error_code: int = i16()
    partition_index: int = i32()
    leader_id: int = i32()
    leader_epoch: int = i32(default=-1)
    replica_nodes: Sequence[int] = array("i32")
    isr_nodes: Sequence[int] = array("i32")
    eligible_leader_replicas: Sequence[int] | None = array("i32", default=None, nullable="0+")
    last_known_elr: Sequence[int] | None = array("i32", default=None, nullable="0+")
    offline_replicas: Sequence[int] = array("i32")


@message
class DescribeTopicPartitionsResponseTopic(Message):
    """A topic with partitions, or an error."""

    error_code: int = i16()
    name: str | None = string(nullable="0+")
    topic_id: UUID = uuid()
    is_internal: bool = boolean()
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = i32(default=-2147483648)


@message
class CursorResponse(Message):
    """The partition that the next page begins with."""

    topic_name: str = string()
    partition_index: int = i32()


@message
class DescribeTopicPartitionsResponse(Message):
    """DescribeTopicPartitionsResponse, versions 0-0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = array(
        DescribeTopicPartitionsResponseTopic
    )
    next_cursor: CursorResponse | None = struct(CursorResponse, nullable="0+")
