"""InitializeShareGroupState (API key 83). Source: Kafka's message definitions
InitializeShareGroupStateRequest.json, InitializeShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, i64, message, string, uuid


@message
class PartitionData(Message):
    """A partition, and the state epoch and start offset that it begins with."""

    partition: int = i32()
    state_epoch: int = i32()
    start_offset: int = i64()


@message
class InitializeStateData(Message):
    """A topic with partitions whose delivery state is to be initialised."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@message
class InitializeShareGroupStateRequest(Message):
    """InitializeShareGroupStateRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[InitializeStateData] = array(InitializeStateData)
    fork_of: str = string(tag=9000, default="")
    """Not in Kafka's protocol, between nodes of a fleet: begin with the state of every record of
    this group, instead of the start offsets."""


@message
class PartitionResult(Message):
    """Whether the delivery state of one partition was initialised."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class InitializeStateResult(Message):
    """The results of one topic's partitions."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@message
class InitializeShareGroupStateResponse(Message):
    """InitializeShareGroupStateResponse, versions 0-0."""

    FLEXIBLE = 0

    results: Sequence[InitializeStateResult] = array(InitializeStateResult)
