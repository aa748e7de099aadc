"""WriteShareGroupState (API key 85). Source: Kafka's message definitions
WriteShareGroupStateRequest.json, WriteShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, message, string, uuid


@message
class StateBatch(Message):
    """In WriteShareGroupStateRequest."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_state: int = i8()
    delivery_count: int = i16()


@message
class PartitionData(Message):
    """In WriteShareGroupStateRequest."""

    partition: int = i32()
    state_epoch: int = i32()
    leader_epoch: int = i32()
    start_offset: int = i64()
    delivery_complete_count: int = i32("1+", default=-1)
    state_batches: Sequence[StateBatch] = array(StateBatch)


@message
class WriteStateData(Message):
    """In WriteShareGroupStateRequest."""

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
    """In WriteShareGroupStateResponse."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class WriteStateResult(Message):
    """In WriteShareGroupStateResponse."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@message
class WriteShareGroupStateResponse(Message):
    """WriteShareGroupStateResponse, versions 0-1."""

    FLEXIBLE = 0

    results: Sequence[WriteStateResult] = array(WriteStateResult)
