"""DeleteTopics (API key 20).

Source: Kafka's message definitions DeleteTopicsRequest.json, DeleteTopicsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, i16, i32, message, string, uuid


@message
class DeleteTopicState(Message):
    """A topic to delete, by name or by id. Only from version 6 on."""

    name: str | None = string("6+", default=None, nullable="6+")
    topic_id: UUID = uuid("6+")


@message
class DeleteTopicsRequest(Message):
    """DeleteTopicsRequest, versions 1-6."""

    FLEXIBLE = 4

    topic_names: Sequence[str] = array("string", "1-5")
    topics: Sequence[DeleteTopicState] = array(DeleteTopicState, "6+")
    timeout_ms: int = i32()


@message
class DeletableTopicResult(Message):
    """Whether one topic was deleted."""

    name: str | None = string(nullable="6+")
    topic_id: UUID = uuid("6+")
    error_code: int = i16()
    error_message: str | None = string("5+", default=None, nullable="5+")


@message
class DeleteTopicsResponse(Message):
    """DeleteTopicsResponse, versions 1-6."""

    FLEXIBLE = 4

    throttle_time_ms: int = i32()
    responses: Sequence[DeletableTopicResult] = array(DeletableTopicResult)
