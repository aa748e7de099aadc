"""DeleteGroups (API key 42).

Source: Kafka's message definitions DeleteGroupsRequest.json, DeleteGroupsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, message, string


@message
class DeleteGroupsRequest(Message):
    """DeleteGroupsRequest, versions 0-3."""

    FLEXIBLE = 2

    groups_names: Sequence[str] = array("string")


@message
class DeletableGroupResult(Message):
    """Whether one group was deleted."""

    group_id: str = string()
    error_code: int = i16()
    error_message: str | None = string("3+", nullable="3+", default=None)


@message
class DeleteGroupsResponse(Message):
    """DeleteGroupsResponse, versions 0-3."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    results: Sequence[DeletableGroupResult] = array(DeletableGroupResult)
