"""CreatePartitions (API key 37).

Source: Kafka's message definitions CreatePartitionsRequest.json, CreatePartitionsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sharegroup.wire.schema import Message, array, boolean, i16, i32, string


@dataclass(slots=True)
class CreatePartitionsAssignment(Message):
    """In CreatePartitionsRequest."""

    broker_ids: Sequence[int] = array("i32")


@dataclass(slots=True)
class CreatePartitionsTopic(Message):
    """In CreatePartitionsRequest."""

    name: str = string()
    count: int = i32()
    assignments: Sequence[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@dataclass(slots=True)
class CreatePartitionsRequest(Message):
    """CreatePartitionsRequest, versions 0-3."""

    FLEXIBLE = 2

    topics: Sequence[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = i32()
    validate_only: bool = boolean()


@dataclass(slots=True)
class CreatePartitionsTopicResult(Message):
    """In CreatePartitionsResponse."""

    name: str = string()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class CreatePartitionsResponse(Message):
    """CreatePartitionsResponse, versions 0-3."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    results: Sequence[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
