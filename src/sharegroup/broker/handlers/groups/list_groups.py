"""ListGroups: groups of all types, by state and type."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import CLUSTER, Operation, group
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def list_groups(
    parts: BrokerParts, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    """List the groups that match; filters are case-insensitive, and an empty one matches all."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    access = context.access
    sees_all = access.allows(Operation.DESCRIBE, CLUSTER)
    groups = [
        ListedGroup(
            listed.group_id,
            listed.protocol_type,
            group_state=listed.state,
            group_type=listed.type,
        )
        for listed in parts.views.groups.all()
        if (not states or listed.state.lower() in states)
        and (not types or listed.type in types)
        and (sees_all or access.allows(Operation.DESCRIBE, group(listed.group_id)))
    ]
    return ListGroupsResponse(groups=groups)
