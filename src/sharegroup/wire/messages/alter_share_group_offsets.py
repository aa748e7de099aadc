"""AlterShareGroupOffsets (API key 91).

Source: Kafka's message definitions AlterShareGroupOffsetsRequest.json,
AlterShareGroupOffsetsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, i64, string, uuid


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestPartition(Message):
    """In AlterShareGroupOffsetsRequest."""

    partition_index: int = i32()
    start_offset: int = i64()


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestTopic(Message):
    """In AlterShareGroupOffsetsRequest."""

    topic_name: str = string()
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsRequest(Message):
    """AlterShareGroupOffsetsRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


@dataclass(slots=True)
class AlterShareGroupOffsetsResponsePartition(Message):
    """In AlterShareGroupOffsetsResponse."""

    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class AlterShareGroupOffsetsResponseTopic(Message):
    """In AlterShareGroupOffsetsResponse."""

    topic_name: str = string()
    topic_id: UUID = uuid()
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsResponse(Message):
    """AlterShareGroupOffsetsResponse, versions 0-0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )
