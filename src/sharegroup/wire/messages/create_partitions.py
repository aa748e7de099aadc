"""CreatePartitions (API key 37).

Source: Kafka's message definitions CreatePartitionsRequest.json, CreatePartitionsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i16, i32, message, string


@message
class CreatePartitionsAssignment(Message):
    """The brokers that one new partition is assigned to."""

    broker_ids: Sequence[int] = array("i32")


@message
class CreatePartitionsTopic(Message):
    """A topic, and the number of partitions that it shall have."""

    name: str = string()
    count: int = i32()
    assignments: Sequence[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@message
class CreatePartitionsRequest(Message):
    """CreatePartitionsRequest, versions 0-3."""

    FLEXIBLE = 2

    topics: Sequence[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = i32()
    validate_only: bool = boolean()


@message
class CreatePartitionsTopicResult(Message):
    """Whether one topic has grown."""

    name: str = string()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class CreatePartitionsResponse(Message):
    """CreatePartitionsResponse, versions 0-3."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    results: Sequence[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
