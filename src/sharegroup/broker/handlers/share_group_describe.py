"""ShareGroupDescribe: state, epochs, members and their assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharegroup.broker.context import RequestContext
from sharegroup.groups.records import Assignment as Assigned
from sharegroup.model.errors import InvalidGroupId, KafkaError
from sharegroup.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker


async def share_group_describe(
    broker: Broker, request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    """Each group on its own; one that does not exist says GROUP_ID_NOT_FOUND."""
    return ShareGroupDescribeResponse(groups=[_describe(broker, g) for g in request.group_ids])


def failure(request: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    """Every group says ``error``."""
    return ShareGroupDescribeResponse(groups=[_refused(g, error) for g in request.group_ids])


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id, error_code=error.code, error_message=error.message, group_state="Dead"
    )


def _describe(broker: Broker, group_id: str) -> DescribedGroup:
    try:
        if not group_id:
            raise InvalidGroupId
        group = broker.groups.groups.describe(group_id)
    except KafkaError as error:
        return _refused(group_id, error)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[
            Member(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.subscribed_topics,
                assignment=_assignment(broker, member.assignment),
            )
            for member in group.members
        ],
    )


def _assignment(broker: Broker, assigned: Assigned) -> Assignment:
    parts = []
    for topic_id, partitions in assigned.items():
        topic = broker.topics.find_id(topic_id)
        if topic is not None:
            parts.append(TopicPartitions(topic_id, topic.name, partitions))
    return Assignment(parts)
