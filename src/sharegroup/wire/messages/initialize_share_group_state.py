"""InitializeShareGroupState (API key 83). Source: Kafka's message definitions
InitializeShareGroupStateRequest.json, InitializeShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, i64, string, uuid


@dataclass(slots=True)
class PartitionData(Message):
    """In InitializeShareGroupStateRequest."""

    partition: int = i32()
    state_epoch: int = i32()
    start_offset: int = i64()


@dataclass(slots=True)
class InitializeStateData(Message):
    """In InitializeShareGroupStateRequest."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class InitializeShareGroupStateRequest(Message):
    """InitializeShareGroupStateRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[InitializeStateData] = array(InitializeStateData)


@dataclass(slots=True)
class PartitionResult(Message):
    """In InitializeShareGroupStateResponse."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class InitializeStateResult(Message):
    """In InitializeShareGroupStateResponse."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@dataclass(slots=True)
class InitializeShareGroupStateResponse(Message):
    """InitializeShareGroupStateResponse, versions 0-0."""

    FLEXIBLE = 0

    results: Sequence[InitializeStateResult] = array(InitializeStateResult)
