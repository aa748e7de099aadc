"""DescribeGroups: describes classic groups only; here these are groups that have committed offsets
and no members.

Admin clients send it before they conclude that a group does not exist.
"""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import GroupIdNotFound, KafkaError
from sharegroup.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

ERROR_FROM: Final = 6
"""From this version on an unknown group is an error; in earlier versions it has the state "Dead"
(KIP-1043).
"""


async def describe_groups(
    parts: BrokerParts, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    """Each group on its own, with Kafka's error messages."""
    return DescribeGroupsResponse(
        groups=[_describe(parts, group_id, context) for group_id in request.groups]
    )


def failure(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """Every group says ``error``."""
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
            for group_id in request.groups
        ]
    )


def _describe(parts: BrokerParts, group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        context.access.require_group(Operation.DESCRIBE, group_id)
    except KafkaError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    return _dead(parts, group_id, context.version)


def _dead(parts: BrokerParts, group_id: str, version: int) -> DescribedGroup:
    if parts.group_registry.is_simple(group_id):
        return DescribedGroup(group_id=group_id, group_state="Empty")
    group = DescribedGroup(group_id=group_id, group_state="Dead")
    if version >= ERROR_FROM:
        group.error_code = GroupIdNotFound.code
        group.error_message = (
            f"Group {group_id} is not a classic group."
            if parts.group_registry.type_of(group_id)
            else f"Group {group_id} not found."
        )
    return group
