"""DeleteShareGroupState (API key 86). Source: Kafka's message definitions
DeleteShareGroupStateRequest.json, DeleteShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, string, uuid


@dataclass(slots=True)
class PartitionData(Message):
    """In DeleteShareGroupStateRequest."""

    partition: int = i32()


@dataclass(slots=True)
class DeleteStateData(Message):
    """In DeleteShareGroupStateRequest."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class DeleteShareGroupStateRequest(Message):
    """DeleteShareGroupStateRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[DeleteStateData] = array(DeleteStateData)


@dataclass(slots=True)
class PartitionResult(Message):
    """In DeleteShareGroupStateResponse."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class DeleteStateResult(Message):
    """In DeleteShareGroupStateResponse."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@dataclass(slots=True)
class DeleteShareGroupStateResponse(Message):
    """DeleteShareGroupStateResponse, versions 0-0."""

    FLEXIBLE = 0

    results: Sequence[DeleteStateResult] = array(DeleteStateResult)
