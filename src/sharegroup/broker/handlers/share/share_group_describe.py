"""ShareGroupDescribe: state, epochs, members and their assignments."""

from __future__ import annotations

from sharegroup.broker.authorization.hidden import HIDDEN_TOPIC
from sharegroup.broker.authorization.resources import Operation, group
from sharegroup.broker.coordination.group_registry import GroupType
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import InvalidGroupId, KafkaError, TopicAuthorizationFailed
from sharegroup.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


async def share_group_describe(
    parts: BrokerParts, request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    """Each group on its own; a group that does not exist says GROUP_ID_NOT_FOUND."""
    with_operations = request.include_authorized_operations
    return ShareGroupDescribeResponse(
        groups=[
            await _describe(parts, g, context, with_operations)
            async for g in sliced(request.group_ids)
        ]
    )


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


async def _describe(
    parts: BrokerParts, group_id: str, context: RequestContext, with_operations: bool
) -> DescribedGroup:
    access = context.access
    try:
        access.require_group(Operation.DESCRIBE, group_id)
        if not group_id:
            raise InvalidGroupId
        if parts.other_nodes is not None:
            await parts.groups.check_here(group_id)
        parts.group_registry.check(group_id, GroupType.SHARE)
        found = parts.views.share_groups.group(group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    described = DescribedGroup(
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[
            Member(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.subscribed_topics,
                assignment=Assignment([TopicPartitions(*topic) for topic in member.assignment]),
                silent_ms=-1 if member.silence is None else member.silence.silent_ms,
                session_left_ms=-1 if member.silence is None else member.silence.left_ms,
            )
            for member in found.members
        ],
    )
    if access.restricted and not all(
        access.allows_topic(Operation.DESCRIBE, topic.topic_name)
        for member in described.members
        for topic in (member.assignment or Assignment()).topic_partitions
    ):
        return _refused(group_id, TopicAuthorizationFailed(HIDDEN_TOPIC))
    if with_operations:
        described.authorized_operations = access.operations(group(group_id))
    return described
