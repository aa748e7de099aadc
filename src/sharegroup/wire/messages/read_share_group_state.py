"""ReadShareGroupState (API key 84). Source: Kafka's message definitions
ReadShareGroupStateRequest.json, ReadShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, string, uuid


@dataclass(slots=True)
class PartitionData(Message):
    """In ReadShareGroupStateRequest."""

    partition: int = i32()
    leader_epoch: int = i32()


@dataclass(slots=True)
class ReadStateData(Message):
    """In ReadShareGroupStateRequest."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class ReadShareGroupStateRequest(Message):
    """ReadShareGroupStateRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[ReadStateData] = array(ReadStateData)


@dataclass(slots=True)
class StateBatch(Message):
    """In ReadShareGroupStateResponse."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_state: int = i8()
    delivery_count: int = i16()


@dataclass(slots=True)
class PartitionResult(Message):
    """In ReadShareGroupStateResponse."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    state_epoch: int = i32()
    start_offset: int = i64()
    state_batches: Sequence[StateBatch] = array(StateBatch)


@dataclass(slots=True)
class ReadStateResult(Message):
    """In ReadShareGroupStateResponse."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@dataclass(slots=True)
class ReadShareGroupStateResponse(Message):
    """ReadShareGroupStateResponse, versions 0-0."""

    FLEXIBLE = 0

    results: Sequence[ReadStateResult] = array(ReadStateResult)
