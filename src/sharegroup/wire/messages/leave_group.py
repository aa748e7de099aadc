"""LeaveGroup (API key 13).

Source: Kafka's message definitions LeaveGroupRequest.json, LeaveGroupResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.limits import NAMED_MEMBERS_MAX
from sharegroup.wire.schema import Message, array, i16, i32, message, string


@message
class MemberIdentity(Message):
    """A member that leaves, or is removed."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    reason: str | None = string("5+", default=None, nullable="5+")


@message
class LeaveGroupRequest(Message):
    """LeaveGroupRequest, versions 0-5."""

    FLEXIBLE = 4

    group_id: str = string()
    member_id: str = string("0-2")
    members: Sequence[MemberIdentity] = array(MemberIdentity, "3+", most=NAMED_MEMBERS_MAX)


@message
class MemberResponse(Message):
    """Whether one member has left."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = i16("3+")


@message
class LeaveGroupResponse(Message):
    """LeaveGroupResponse, versions 0-5."""

    FLEXIBLE = 4

    throttle_time_ms: int = i32("1+")
    error_code: int = i16()
    members: Sequence[MemberResponse] = array(MemberResponse, "3+")
