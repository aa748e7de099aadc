"""SyncGroup (API key 14).

Source: Kafka's message definitions SyncGroupRequest.json, SyncGroupResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.limits import NAMED_MEMBERS_MAX
from sharegroup.wire.schema import Message, array, data, i16, i32, message, string


@message
class SyncGroupRequestAssignment(Message):
    """A member and its assignment, from the leader of the group."""

    member_id: str = string()
    assignment: bytes = data()


@message
class SyncGroupRequest(Message):
    """SyncGroupRequest, versions 0-5."""

    FLEXIBLE = 4

    group_id: str = string()
    generation_id: int = i32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    protocol_type: str | None = string("5+", default=None, nullable="5+")
    protocol_name: str | None = string("5+", default=None, nullable="5+")
    assignments: Sequence[SyncGroupRequestAssignment] = array(
        SyncGroupRequestAssignment, most=NAMED_MEMBERS_MAX
    )


@message
class SyncGroupResponse(Message):
    """SyncGroupResponse, versions 0-5."""

    FLEXIBLE = 4

    throttle_time_ms: int = i32("1+")
    error_code: int = i16()
    protocol_type: str | None = string("5+", default=None, nullable="5+")
    protocol_name: str | None = string("5+", default=None, nullable="5+")
    assignment: bytes = data()
