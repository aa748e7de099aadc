"""ListPartitionReassignments (API key 46).

Source: Kafka's message definitions ListPartitionReassignmentsRequest.json,
ListPartitionReassignmentsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, message, string


@message
class ListPartitionReassignmentsTopics(Message):
    """A topic with partitions to list."""

    name: str = string()
    partition_indexes: Sequence[int] = array("i32")


@message
class ListPartitionReassignmentsRequest(Message):
    """ListPartitionReassignmentsRequest, versions 0-0."""

    FLEXIBLE = 0

    timeout_ms: int = i32(default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, default=None, nullable="0+"
    )


@message
class OngoingPartitionReassignment(Message):
    """A partition that is being reassigned."""

    partition_index: int = i32()
    replicas: Sequence[int] = array("i32")
    adding_replicas: Sequence[int] = array("i32")
    removing_replicas: Sequence[int] = array("i32")


@message
class OngoingTopicReassignment(Message):
    """A topic with partitions that are being reassigned."""

    name: str = string()
    partitions: Sequence[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message
class ListPartitionReassignmentsResponse(Message):
    """ListPartitionReassignmentsResponse, versions 0-0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")
    topics: Sequence[OngoingTopicReassignment] = array(OngoingTopicReassignment)
