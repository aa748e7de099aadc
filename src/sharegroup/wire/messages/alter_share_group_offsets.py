"""AlterShareGroupOffsets (API key 91).

Source: Kafka's message definitions AlterShareGroupOffsetsRequest.json,
AlterShareGroupOffsetsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string, uuid


@message
class AlterShareGroupOffsetsRequestPartition(Message):
    """A partition and the start offset that the group shall have there."""

    partition_index: int = i32()
    start_offset: int = i64()


@message
class AlterShareGroupOffsetsRequestTopic(Message):
    """A topic with partitions whose start offset is to be altered."""

    topic_name: str = string()
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


@message
class AlterShareGroupOffsetsRequest(Message):
    """AlterShareGroupOffsetsRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)
    fork_of: str = string(tag=9000, default="")
    """Not in Kafka's protocol: begin with the state of every record of this group, in all its
    topics. There are no ``topics`` then, and the response has those."""


@message
class AlterShareGroupOffsetsResponsePartition(Message):
    """Whether the start offset of one partition was altered."""

    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class AlterShareGroupOffsetsResponseTopic(Message):
    """The results of one topic's partitions."""

    topic_name: str = string()
    topic_id: UUID = uuid()
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


@message
class AlterShareGroupOffsetsResponse(Message):
    """AlterShareGroupOffsetsResponse, versions 0-0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )
