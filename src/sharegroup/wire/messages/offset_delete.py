"""OffsetDelete (API key 47).

Source: Kafka's message definitions OffsetDeleteRequest.json, OffsetDeleteResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sharegroup.wire.schema import Message, array, i16, i32, string


@dataclass(slots=True)
class OffsetDeleteRequestPartition(Message):
    """In OffsetDeleteRequest."""

    partition_index: int = i32()


@dataclass(slots=True)
class OffsetDeleteRequestTopic(Message):
    """In OffsetDeleteRequest."""

    name: str = string()
    partitions: Sequence[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@dataclass(slots=True)
class OffsetDeleteRequest(Message):
    """OffsetDeleteRequest, versions 0-0."""

    FLEXIBLE = 32_768

    group_id: str = string()
    topics: Sequence[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@dataclass(slots=True)
class OffsetDeleteResponsePartition(Message):
    """In OffsetDeleteResponse."""

    partition_index: int = i32()
    error_code: int = i16()


@dataclass(slots=True)
class OffsetDeleteResponseTopic(Message):
    """In OffsetDeleteResponse."""

    name: str = string()
    partitions: Sequence[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@dataclass(slots=True)
class OffsetDeleteResponse(Message):
    """OffsetDeleteResponse, versions 0-0."""

    FLEXIBLE = 32_768

    error_code: int = i16()
    throttle_time_ms: int = i32()
    topics: Sequence[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
