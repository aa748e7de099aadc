"""ReadShareGroupState (API key 84). Source: Kafka's message definitions
ReadShareGroupStateRequest.json, ReadShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, message, string, uuid


@message
class PartitionData(Message):
    """A partition, and the leader epoch of the leader that reads its state."""

    partition: int = i32()
    leader_epoch: int = i32()


@message
class ReadStateData(Message):
    """A topic with partitions whose delivery state is to be read."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@message
class ReadShareGroupStateRequest(Message):
    """ReadShareGroupStateRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[ReadStateData] = array(ReadStateData)


@message
class StateBatch(Message):
    """A range of offsets with one delivery state and delivery count."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_state: int = i8()
    delivery_count: int = i16()


@message
class PartitionResult(Message):
    """The delivery state of one partition, or an error."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    state_epoch: int = i32()
    start_offset: int = i64()
    state_batches: Sequence[StateBatch] = array(StateBatch)


@message
class ReadStateResult(Message):
    """The results of one topic's partitions."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@message
class ReadShareGroupStateResponse(Message):
    """ReadShareGroupStateResponse, versions 0-0."""

    FLEXIBLE = 0

    results: Sequence[ReadStateResult] = array(ReadStateResult)
