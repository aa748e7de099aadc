"""WriteShareGroupState (API key 85). Source: Kafka's message definitions
WriteShareGroupStateRequest.json, WriteShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, message, string, uuid


@message
class StateBatch(Message):
    """A range of offsets with one delivery state and delivery count."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_state: int = i8()
    delivery_count: int = i16()
    due_ms: int = i64(tag=9000, default=-1)
    """Not in Kafka's protocol: available records that must not be delivered before this time, in
    milliseconds since 1970; -1: they may."""


@message
class PartitionData(Message):
    """A change of one partition's delivery state."""

    partition: int = i32()
    state_epoch: int = i32()
    leader_epoch: int = i32()
    start_offset: int = i64()
    delivery_complete_count: int = i32("1+", default=-1)
    state_batches: Sequence[StateBatch] = array(StateBatch)


@message
class WriteStateData(Message):
    """A topic with partitions whose delivery state changes."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@message
class WriteShareGroupStateRequest(Message):
    """WriteShareGroupStateRequest, versions 0-1."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[WriteStateData] = array(WriteStateData)


@message
class PartitionResult(Message):
    """Whether the change of one partition was written."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class WriteStateResult(Message):
    """The results of one topic's partitions."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@message
class WriteShareGroupStateResponse(Message):
    """WriteShareGroupStateResponse, versions 0-1."""

    FLEXIBLE = 0

    results: Sequence[WriteStateResult] = array(WriteStateResult)
