"""ConsumerGroupDescribe: state, epochs, members with their current and their target assignments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharegroup.broker.authorization.resources import Operation, group
from sharegroup.broker.handlers.share.share_group_describe import HIDDEN_TOPIC
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.groups.consumer import member as core
from sharegroup.groups.consumer.records import Parts, plain
from sharegroup.groups.records import Assignment as CoreAssignment
from sharegroup.model.errors import (
    GroupIdNotFound,
    InvalidGroupId,
    KafkaError,
    TopicAuthorizationFailed,
)
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


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _describe(
    parts: BrokerParts, group_id: str, context: RequestContext, with_operations: bool
) -> DescribedGroup:
    access = context.access
    try:
        access.require_group(Operation.DESCRIBE, group_id)
        if not group_id:
            raise InvalidGroupId
        found = _find(parts, group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    described = DescribedGroup(
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[_member(parts, member, found) for member in found.members],
    )
    if access.restricted and not all(
        access.allows_topic(Operation.DESCRIBE, name) for name in _topics(described.members)
    ):
        return _refused(group_id, TopicAuthorizationFailed(HIDDEN_TOPIC))
    if with_operations:
        described.authorized_operations = access.operations(group(group_id))
    return described


def _find(parts: BrokerParts, group_id: str) -> core.ConsumerGroupDescription:
    if parts.group_registry.type_of(group_id) not in (None, "consumer"):
        raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
    return parts.consumer_groups.groups.describe(group_id)


def _member(
    parts: BrokerParts, member: core.ConsumerMember, group: core.ConsumerGroupDescription
) -> Member:
    target = group.targets.get(member.member_id, {})
    target_parts = group.target_parts.get(member.member_id, {})
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topics,
        subscribed_topic_regex=member.subscribed_regex or "",  # never null, as in Kafka
        assignment=_assignment(
            parts, plain(member.assigned), {} if member.cooperative else member.assigned_parts
        ),
        target_assignment=_assignment(parts, target, {} if member.cooperative else target_parts),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(parts: BrokerParts, assignment: CoreAssignment, shared: Parts) -> Assignment:
    """An assignment for the response; deleted topics are left out."""
    named = ((parts.topics.name_of(topic_id), topic_id) for topic_id in assignment)
    return Assignment(
        [
            TopicPartitions(
                topic_id, name, assignment[topic_id], ranges_of(shared.get(topic_id, {}))
            )
            for name, topic_id in named
            if name is not None
        ]
    )


def _topics(members: Iterable[Member]) -> set[str]:
    return {
        topic.topic_name
        for member in members
        for assignment in (member.assignment, member.target_assignment)
        if assignment is not None
        for topic in assignment.topic_partitions
    }
