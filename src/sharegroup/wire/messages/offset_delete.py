"""OffsetDelete (API key 47).

Source: Kafka's message definitions OffsetDeleteRequest.json, OffsetDeleteResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, message, string


@message
class OffsetDeleteRequestPartition(Message):
    """A partition whose committed offset is to be deleted."""

    partition_index: int = i32()


@message
class OffsetDeleteRequestTopic(Message):
    """A topic with partitions whose committed offsets are to be deleted."""

    name: str = string()
    partitions: Sequence[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message
class OffsetDeleteRequest(Message):
    """OffsetDeleteRequest, versions 0-0."""

    FLEXIBLE = 32_768

    group_id: str = string()
    topics: Sequence[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@message
class OffsetDeleteResponsePartition(Message):
    """Whether the offset of one partition was deleted."""

    partition_index: int = i32()
    error_code: int = i16()


@message
class OffsetDeleteResponseTopic(Message):
    """The results of one topic's partitions."""

    name: str = string()
    partitions: Sequence[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message
class OffsetDeleteResponse(Message):
    """OffsetDeleteResponse, versions 0-0."""

    FLEXIBLE = 32_768

    error_code: int = i16()
    throttle_time_ms: int = i32()
    topics: Sequence[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
