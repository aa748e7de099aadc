"""Heartbeat: a member of a classic group is alive."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def heartbeat(
    parts: BrokerParts, request: HeartbeatRequest, context: RequestContext
) -> HeartbeatResponse:
    """REBALANCE_IN_PROGRESS tells the member to join again."""
    context.access.require_group(Operation.READ, request.group_id)
    if not request.group_id:
        raise errors.InvalidGroupId
    try:
        must_join = await parts.classic_groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except errors.CoordinatorLoadInProgress:
        must_join = False  # as in Kafka: the member need not do anything
    return HeartbeatResponse(
        error_code=errors.RebalanceInProgress.code if must_join else errors.NONE
    )
