"""SyncGroup: a member of a classic group gets its assignment; the leader sends all assignments."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.classic.requests import Refused, Sync
from sharegroup.model import errors
from sharegroup.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_REQUIRED_FROM: Final = 5


async def sync_group(
    parts: BrokerParts, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse:
    """Pass the sync to the coordinator; answered once the assignments are durable."""
    if context.version >= PROTOCOL_REQUIRED_FROM and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        raise errors.InconsistentGroupProtocol
    context.access.require_group(Operation.READ, request.group_id)
    if not request.group_id:
        raise errors.InvalidGroupId
    answer = await parts.classic_groups.sync(
        Sync(
            group_id=request.group_id,
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=[(one.member_id, bytes(one.assignment)) for one in request.assignments],
        )
    )
    if isinstance(answer, Refused):
        error = answer.error
        if not isinstance(error, errors.RebalanceInProgress):
            parts.counters.trouble("request_errors", f"SyncGroup {error.name}", str(error))
        return SyncGroupResponse(error_code=error.code)
    return SyncGroupResponse(
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
