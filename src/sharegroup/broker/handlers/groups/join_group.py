"""JoinGroup: become or stay a member of a classic group; answered when all members have joined."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.classic.requests import Join, Joined, Protocol, Refused
from sharegroup.model import errors
from sharegroup.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

REBALANCE_TIMEOUT_FROM: Final = 1
"""From this version on the request has a rebalance timeout. In earlier versions the session timeout
serves as one."""
MEMBER_ID_REQUIRED_FROM: Final = 4
SKIP_ASSIGNMENT_FROM: Final = 9
NULL_PROTOCOL_FROM: Final = 7


async def join_group(
    parts: BrokerParts, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse:
    """Pass the join to the coordinator."""
    answer: Joined | Refused
    try:
        answer = await _join(parts, request, context)
    except errors.InconsistentGroupProtocol as other_type:
        answer = Refused(other_type)
    except errors.KafkaError as refused:
        answer = Refused(refused, request.member_id)
    no_name = None if context.version >= NULL_PROTOCOL_FROM else ""
    if isinstance(answer, Refused):
        error = answer.error
        if not isinstance(error, errors.MemberIdRequired | errors.RebalanceInProgress):
            parts.counters.trouble("request_errors", f"JoinGroup {error.name}", str(error))
        return JoinGroupResponse(
            error_code=error.code, protocol_name=no_name, member_id=answer.member_id
        )
    return JoinGroupResponse(
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name or no_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[JoinGroupResponseMember(*member) for member in answer.members],
    )


async def _join(
    parts: BrokerParts, request: JoinGroupRequest, context: RequestContext
) -> Joined | Refused:
    context.access.require_group(Operation.READ, request.group_id)
    if not request.group_id:
        raise errors.InvalidGroupId
    broker = parts.configs.broker
    lowest, highest = (
        broker.integer(f"group.{which}.session.timeout.ms") for which in ("min", "max")
    )
    if not lowest <= request.session_timeout_ms <= highest:
        raise errors.InvalidSessionTimeout
    old = context.version < REBALANCE_TIMEOUT_FROM
    protocols: dict[str, Protocol] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, Protocol(protocol.name, bytes(protocol.metadata)))
    return await parts.classic_groups.join(
        Join(
            group_id=request.group_id,
            member_id=request.member_id,
            new_member_id=parts.classic_groups.new_member_id(
                request.group_instance_id or context.client_id
            ),
            instance_id=request.group_instance_id,
            client_id=context.client_id,
            client_host=context.client_host,
            protocol_type=request.protocol_type,
            protocols=tuple(protocols.values()),
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=(
                request.session_timeout_ms if old else request.rebalance_timeout_ms
            ),
            id_required=context.version >= MEMBER_ID_REQUIRED_FROM,
            can_skip_assignment=context.version >= SKIP_ASSIGNMENT_FROM,
        ),
        context.give_back,
    )
