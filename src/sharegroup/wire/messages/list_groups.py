"""ListGroups (API key 16).

Source: Kafka's message definitions ListGroupsRequest.json, ListGroupsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, i16, i32, message, string


@message
class ListGroupsRequest(Message):
    """ListGroupsRequest, versions 0-5."""

    FLEXIBLE = 3

    states_filter: Sequence[str] = array("string", "4+")
    types_filter: Sequence[str] = array("string", "5+")


@message
class ListedGroup(Message):
    """A group in the list."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


@message
class ListGroupsResponse(Message):
    """ListGroupsResponse, versions 0-5."""

    FLEXIBLE = 3

    throttle_time_ms: int = i32("1+")
    error_code: int = i16()
    groups: Sequence[ListedGroup] = array(ListedGroup)
