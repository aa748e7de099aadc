"""OffsetForLeaderEpoch (API key 23).

Source: Kafka's message definitions OffsetForLeaderEpochRequest.json,
OffsetForLeaderEpochResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string


@message
class OffsetForLeaderPartition(Message):
    """A partition, and the leader epoch whose end is wanted."""

    partition: int = i32()
    current_leader_epoch: int = i32(default=-1)
    leader_epoch: int = i32()


@message
class OffsetForLeaderTopic(Message):
    """A topic with partitions to look up."""

    topic: str = string()
    partitions: Sequence[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message
class OffsetForLeaderEpochRequest(Message):
    """OffsetForLeaderEpochRequest, versions 2-4."""

    FLEXIBLE = 4

    replica_id: int = i32("3+", default=-2)
    topics: Sequence[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@message
class EpochEndOffset(Message):
    """Where the leader epoch ends in one partition, or an error."""

    error_code: int = i16()
    partition: int = i32()
    leader_epoch: int = i32(default=-1)
    end_offset: int = i64(default=-1)


@message
class OffsetForLeaderTopicResult(Message):
    """The results of one topic's partitions."""

    topic: str = string()
    partitions: Sequence[EpochEndOffset] = array(EpochEndOffset)


@message
class OffsetForLeaderEpochResponse(Message):
    """OffsetForLeaderEpochResponse, versions 2-4."""

    FLEXIBLE = 4

    throttle_time_ms: int = i32()
    topics: Sequence[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
