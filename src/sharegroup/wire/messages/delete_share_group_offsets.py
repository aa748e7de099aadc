"""DeleteShareGroupOffsets (API key 92).

Source: Kafka's message definitions DeleteShareGroupOffsetsRequest.json,
DeleteShareGroupOffsetsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, message, string, uuid


@message
class DeleteShareGroupOffsetsRequestTopic(Message):
    """A topic that the group shall forget."""

    topic_name: str = string()


@message
class DeleteShareGroupOffsetsRequest(Message):
    """DeleteShareGroupOffsetsRequest, versions 0-0."""

    FLEXIBLE = 0

    group_id: str = string()
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = array(
        DeleteShareGroupOffsetsRequestTopic
    )


@message
class DeleteShareGroupOffsetsResponseTopic(Message):
    """Whether the group has forgotten one topic."""

    topic_name: str = string()
    topic_id: UUID = uuid()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")


@message
class DeleteShareGroupOffsetsResponse(Message):
    """DeleteShareGroupOffsetsResponse, versions 0-0."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )
