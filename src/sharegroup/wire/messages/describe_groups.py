"""DescribeGroups (API key 15).

Source: Kafka's message definitions DescribeGroupsRequest.json, DescribeGroupsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, data, i16, i32, message, string


@message
class DescribeGroupsRequest(Message):
    """DescribeGroupsRequest, versions 0-6."""

    FLEXIBLE = 5

    groups: Sequence[str] = array("string")
    include_authorized_operations: bool = boolean("3+")


@message
class DescribedGroupMember(Message):
    """A member of a classic group."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", default=None, nullable="4+")
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = data()
    member_assignment: bytes = data()


@message
class DescribedGroup(Message):
    """The description of one classic group, or an error."""

    error_code: int = i16()
    error_message: str | None = string("6+", default=None, nullable="6+")
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: Sequence[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = i32("3+", default=-2147483648)


@message
class DescribeGroupsResponse(Message):
    """DescribeGroupsResponse, versions 0-6."""

    FLEXIBLE = 5

    throttle_time_ms: int = i32("1+")
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
