"""DescribeGroups: state, members and assignments of classic groups.

Admin clients also send it before they conclude that a group does not exist.
"""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation, group
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import GroupIdNotFound, KafkaError
from sharegroup.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
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
    with_operations = request.include_authorized_operations
    return DescribeGroupsResponse(
        groups=[
            _describe(parts, group_id, context, with_operations)
            async for group_id in sliced(request.groups)
        ]
    )


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)


def _describe(
    parts: BrokerParts, group_id: str, context: RequestContext, with_operations: bool
) -> DescribedGroup:
    try:
        context.access.require_group(Operation.DESCRIBE, group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    try:
        found = parts.views.groups.classic_group(group_id)
    except GroupIdNotFound:
        described = _other(parts, group_id, context.version)
    else:
        described = DescribedGroup(
            group_id=group_id,
            group_state=found.state,
            protocol_type=found.protocol_type,
            protocol_data=found.protocol_name,
            members=[DescribedGroupMember(*member) for member in found.members],
        )
    if with_operations and not described.error_code:
        described.authorized_operations = context.access.operations(group(group_id))
    return described


def _other(parts: BrokerParts, group_id: str, version: int) -> DescribedGroup:
    """A group that is not a classic group, or has only committed offsets."""
    if parts.group_registry.is_simple(group_id):
        return DescribedGroup(group_id=group_id, group_state="Empty")
    described = DescribedGroup(group_id=group_id, group_state="Dead")
    if version >= ERROR_FROM:
        described.error_code = GroupIdNotFound.code
        described.error_message = (
            f"Group {group_id} is not a classic group."
            if parts.group_registry.type_of(group_id)
            else f"Group {group_id} not found."
        )
    return described
