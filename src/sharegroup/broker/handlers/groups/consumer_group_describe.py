"""ConsumerGroupDescribe: state, epochs, members with their current and their target assignments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.broker.authorization.hidden import HIDDEN_TOPIC
from sharegroup.broker.authorization.resources import Operation, group
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.read_model.groups import AssignedTopicView, ConsumerMemberView
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model import errors
from sharegroup.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from sharegroup.wire.messages.ranges import ranges_of

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


async def consumer_group_describe(
    parts: BrokerParts, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Each group on its own; a group that does not exist says GROUP_ID_NOT_FOUND."""
    with_operations = request.include_authorized_operations
    return ConsumerGroupDescribeResponse(
        groups=[
            _describe(parts, g, context, with_operations) async for g in sliced(request.group_ids)
        ]
    )


def _refused(group_id: str, error: errors.KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _describe(
    parts: BrokerParts, group_id: str, context: RequestContext, with_operations: bool
) -> DescribedGroup:
    access = context.access
    try:
        access.require_group(Operation.DESCRIBE, group_id)
        if not group_id:
            raise errors.InvalidGroupId
        found = parts.views.groups.consumer_group(group_id)
    except errors.KafkaError as error:
        return _refused(group_id, error)
    if access.restricted and not all(
        access.allows_topic(Operation.DESCRIBE, name) for name in found.topics()
    ):
        return _refused(group_id, errors.TopicAuthorizationFailed(HIDDEN_TOPIC))
    described = DescribedGroup(
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[_member(member) for member in found.members],
    )
    if with_operations:
        described.authorized_operations = access.operations(group(group_id))
    return described


def _member(member: ConsumerMemberView) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topics,
        subscribed_topic_regex=member.subscribed_regex or "",  # never null, as in Kafka
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=CLASSIC_MEMBER if member.classic else CONSUMER_MEMBER,
    )


def _assignment(assigned: Iterable[AssignedTopicView]) -> Assignment:
    return Assignment(
        [
            TopicPartitions(each.topic_id, each.topic, each.partitions, ranges_of(each.key_ranges))
            for each in assigned
        ]
    )
