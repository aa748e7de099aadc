"""JoinGroup (API key 11).

Source: Kafka's message definitions JoinGroupRequest.json, JoinGroupResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, data, i16, i32, message, string


@message
class JoinGroupRequestProtocol(Message):
    """An assignor that the member supports, with the member's metadata for it."""

    name: str = string()
    metadata: bytes = data()


@message
class JoinGroupRequest(Message):
    """JoinGroupRequest, versions 0-9."""

    FLEXIBLE = 6

    group_id: str = string()
    session_timeout_ms: int = i32()
    rebalance_timeout_ms: int = i32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", default=None, nullable="5+")
    protocol_type: str = string()
    protocols: Sequence[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", default=None, nullable="8+")


@message
class JoinGroupResponseMember(Message):
    """A member and its metadata, for the leader of the group."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", default=None, nullable="5+")
    metadata: bytes = data()


@message
class JoinGroupResponse(Message):
    """JoinGroupResponse, versions 0-9."""

    FLEXIBLE = 6

    throttle_time_ms: int = i32("2+")
    error_code: int = i16()
    generation_id: int = i32(default=-1)
    protocol_type: str | None = string("7+", default=None, nullable="7+")
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: Sequence[JoinGroupResponseMember] = array(JoinGroupResponseMember)
