"""TxnOffsetCommit (API key 28).

Source: Kafka's message definitions TxnOffsetCommitRequest.json, TxnOffsetCommitResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.model.limits import COMMITTED_TOPICS_MAX
from sharegroup.wire.messages.ranges import Range
from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string, uuid


@message
class TxnOffsetCommitRequestPartition(Message):
    """A partition, and the offset (or the ranges) to commit there."""

    partition_index: int = i32()
    committed_offset: int = i64()
    committed_leader_epoch: int = i32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")
    offset_ranges: Sequence[Range] = array(Range, tag=9000)
    """Ours: commit these offsets, and not all before ``committed_offset``, which then only says
    where the group begins, if it has no committed offset (KIP-X)."""


@message
class TxnOffsetCommitRequestTopic(Message):
    """A topic with partitions to commit."""

    name: str = string("0-5")
    topic_id: UUID = uuid("6+")
    partitions: Sequence[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message
class TxnOffsetCommitRequest(Message):
    """TxnOffsetCommitRequest, versions 0-6."""

    FLEXIBLE = 3

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = i64()
    producer_epoch: int = i16()
    generation_id_or_member_epoch: int = i32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    topics: Sequence[TxnOffsetCommitRequestTopic] = array(
        TxnOffsetCommitRequestTopic, most=COMMITTED_TOPICS_MAX
    )


@message
class TxnOffsetCommitResponsePartition(Message):
    """Whether one partition was committed to the transaction."""

    partition_index: int = i32()
    error_code: int = i16()
    last_stable_offset: int = i64(tag=9000, default=-1)
    """Ours: all offsets before it are committed; -1 unless ranges were committed."""


@message
class TxnOffsetCommitResponseTopic(Message):
    """The results of one topic's partitions."""

    name: str = string("0-5")
    topic_id: UUID = uuid("6+")
    partitions: Sequence[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message
class TxnOffsetCommitResponse(Message):
    """TxnOffsetCommitResponse, versions 0-6."""

    FLEXIBLE = 3

    throttle_time_ms: int = i32()
    topics: Sequence[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
