"""AlterPartitionReassignments (API key 45).

Source: Kafka's message definitions AlterPartitionReassignmentsRequest.json,
AlterPartitionReassignmentsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i16, i32, message, string


@message
class ReassignablePartition(Message):
    """A partition and its new replicas; null cancels its reassignment."""

    partition_index: int = i32()
    replicas: Sequence[int] | None = array("i32", default=None, nullable="0+")


@message
class ReassignableTopic(Message):
    """A topic with partitions to reassign."""

    name: str = string()
    partitions: Sequence[ReassignablePartition] = array(ReassignablePartition)


@message
class AlterPartitionReassignmentsRequest(Message):
    """AlterPartitionReassignmentsRequest, versions 0-1."""

    FLEXIBLE = 0

    timeout_ms: int = i32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: Sequence[ReassignableTopic] = array(ReassignableTopic)


@message
class ReassignablePartitionResponse(Message):
    """Whether one partition is being reassigned."""

    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")


@message
class ReassignableTopicResponse(Message):
    """The results of one topic's partitions."""

    name: str = string()
    partitions: Sequence[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message
class AlterPartitionReassignmentsResponse(Message):
    """AlterPartitionReassignmentsResponse, versions 0-1."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")
    responses: Sequence[ReassignableTopicResponse] = array(ReassignableTopicResponse)
