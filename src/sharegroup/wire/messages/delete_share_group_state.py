"""DeleteShareGroupState (API key 86). Source: Kafka's message definitions
DeleteShareGroupStateRequest.json, DeleteShareGroupStateResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, message, string, uuid


@message
class PartitionData(Message):
    """A partition whose delivery state is to be deleted."""

    partition: int = i32()


@message
class DeleteStateData(Message):
    """A topic with partitions whose delivery state is to be deleted."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@message
class DeleteShareGroupStateRequest(Message):
    """DeleteShareGroupStateRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[DeleteStateData] = array(DeleteStateData)


@message
class PartitionResult(Message):
    """Whether the delivery state of one partition was deleted."""

    partition: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class DeleteStateResult(Message):
    """The results of one topic's partitions."""

    topic_id: UUID = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@message
class DeleteShareGroupStateResponse(Message):
    """DeleteShareGroupStateResponse, versions 0-0."""

    FLEXIBLE = 0

    results: Sequence[DeleteStateResult] = array(DeleteStateResult)
