"""ReadShareGroupStateSummary (API key 87). Source: Kafka's message definitions
ReadShareGroupStateSummaryRequest.json, ReadShareGroupStateSummaryResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, boolean, i16, i32, i64, message, string, uuid


@message
class PartitionData(Message):
    """A partition, and the leader epoch of the leader that asks."""

    partition: int = i32()
    leader_epoch: int = i32()


@message
class ReadStateSummaryData(Message):
    """A topic with partitions whose delivery state is to be summed up."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@message
class ReadShareGroupStateSummaryRequest(Message):
    """ReadShareGroupStateSummaryRequest, versions 0-1."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[ReadStateSummaryData] = array(ReadStateSummaryData)


@message
class PartitionResult(Message):
    """The summary of one partition's delivery state, or an error."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    state_epoch: int = i32()
    leader_epoch: int = i32()
    start_offset: int = i64()
    delivery_complete_count: int = i32("1+", default=-1)
    unread: bool = boolean(tag=9000)
    """Ours: no leader has read the state yet. The leader epoch is 0 then, as in Kafka."""


@message
class ReadStateSummaryResult(Message):
    """The results of one topic's partitions."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@message
class ReadShareGroupStateSummaryResponse(Message):
    """ReadShareGroupStateSummaryResponse, versions 0-1."""

    FLEXIBLE = 0

    results: Sequence[ReadStateSummaryResult] = array(ReadStateSummaryResult)
