"""ShareGroupHeartbeat: join, stay, leave."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.share.heartbeat import ShareHeartbeat, check_member_id
from sharegroup.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)


async def share_group_heartbeat(
    parts: BrokerParts, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    """Pass the heartbeat to the coordinator; a null assignment means that it is unchanged."""
    context.access.require_group(Operation.READ, request.group_id)
    check_member_id(request.member_id)  # before topics, as Kafka does
    names = request.subscribed_topic_names
    for name in names or ():
        context.access.require_topic(Operation.DESCRIBE, name)
    result = await parts.groups.heartbeat(
        ShareHeartbeat(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            rack_id=request.rack_id,
            subscribed_topics=None if names is None else tuple(names),
            client_id=context.client_id,
            client_host=context.client_host,
        )
    )
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            [TopicPartitions(topic_id, parts) for topic_id, parts in result.assignment.items()]
        )
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
