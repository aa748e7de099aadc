"""OffsetCommit (API key 8).

Source: Kafka's message definitions OffsetCommitRequest.json, OffsetCommitResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sharegroup.model.limits import COMMITTED_TOPICS_MAX
from sharegroup.wire.schema import Message, array, i16, i32, i64, string, uuid


@dataclass(slots=True)
class OffsetCommitRequestPartition(Message):
    """In OffsetCommitRequest."""

    partition_index: int = i32()
    committed_offset: int = i64()
    committed_leader_epoch: int = i32("6+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@dataclass(slots=True)
class OffsetCommitRequestTopic(Message):
    """In OffsetCommitRequest."""

    name: str = string("0-9")
    topic_id: UUID = uuid("10+")
    partitions: Sequence[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@dataclass(slots=True)
class OffsetCommitRequest(Message):
    """OffsetCommitRequest, versions 2-10."""

    FLEXIBLE = 8

    group_id: str = string()
    generation_id_or_member_epoch: int = i32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", default=None, nullable="7+")
    retention_time_ms: int = i64("2-4", default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = array(
        OffsetCommitRequestTopic, most=COMMITTED_TOPICS_MAX
    )


@dataclass(slots=True)
class OffsetCommitResponsePartition(Message):
    """In OffsetCommitResponse."""

    partition_index: int = i32()
    error_code: int = i16()


@dataclass(slots=True)
class OffsetCommitResponseTopic(Message):
    """In OffsetCommitResponse."""

    name: str = string("0-9")
    topic_id: UUID = uuid("10+")
    partitions: Sequence[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@dataclass(slots=True)
class OffsetCommitResponse(Message):
    """OffsetCommitResponse, versions 2-10."""

    FLEXIBLE = 8

    throttle_time_ms: int = i32("3+")
    topics: Sequence[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
