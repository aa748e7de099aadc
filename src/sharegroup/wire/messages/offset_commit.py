"""OffsetCommit (API key 8).

Source: Kafka's message definitions OffsetCommitRequest.json, OffsetCommitResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.model.limits import COMMITTED_TOPICS_MAX
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string, uuid


@message
class OffsetCommitRequestPartition(Message):
    """A partition, and the offset (or the ranges) to commit there."""

    partition_index: int = i32()
    committed_offset: int = i64()
    committed_leader_epoch: int = i32("6+", default=-1)
    committed_metadata: str | None = string(nullable="0+")
    offset_ranges: Sequence[Range] = array(Range, tag=9000)
    """Ours: commit these offsets, and not all before ``committed_offset``, which then only says
    where the group begins, if it has no committed offset (KIP-X). A range that ends right before
    it begins is empty: with it alone, nothing is committed but that beginning."""


@message
class OffsetCommitRequestTopic(Message):
    """A topic with partitions to commit."""

    name: str = string("0-9")
    topic_id: UUID = uuid("10+")
    partitions: Sequence[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message
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


@message
class OffsetCommitResponsePartition(Message):
    """Whether one partition was committed."""

    partition_index: int = i32()
    error_code: int = i16()
    last_stable_offset: int = i64(tag=9000, default=-1)
    """Ours: all offsets before it are committed; -1 unless ranges were committed."""


@message
class OffsetCommitResponseTopic(Message):
    """The results of one topic's partitions."""

    name: str = string("0-9")
    topic_id: UUID = uuid("10+")
    partitions: Sequence[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message
class OffsetCommitResponse(Message):
    """OffsetCommitResponse, versions 2-10."""

    FLEXIBLE = 8

    throttle_time_ms: int = i32("3+")
    topics: Sequence[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
