"""LeaveGroup: members leave a classic group, or an administrator removes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.classic.requests import LeavingMember, LeftMember
from sharegroup.model.errors import NONE, InvalidGroupId, UnknownMemberId
from sharegroup.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

SEVERAL_FROM: Final = 3
"""From this version on the request may name several members. Earlier versions name one member, and
the answer has one error."""


async def leave_group(
    parts: BrokerParts, request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse:
    """Each member on its own."""
    context.access.require_group(Operation.READ, request.group_id)
    if not request.group_id:
        raise InvalidGroupId
    if context.version < SEVERAL_FROM:
        leaving = [LeavingMember(request.member_id)]
    else:
        leaving = [LeavingMember(one.member_id, one.group_instance_id) for one in request.members]
    left: Sequence[LeftMember]
    try:
        left = await parts.classic_groups.leave(request.group_id, leaving)
    except UnknownMemberId as error:  # there is no such group
        left = [LeftMember(member, error) for member in leaving]
    codes = [NONE if error is None else error.code for _, error in left]
    if context.version < SEVERAL_FROM:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member.member_id, member.instance_id, code)
            for (member, _), code in zip(left, codes, strict=True)
        ]
    )
