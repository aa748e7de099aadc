"""``Admin``'s requests about consumer groups, of both protocols: one attempt each; errors are
raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sharegroup.client.admin.descriptions import (
    ConsumerGroupDescription,
    ConsumerGroupMemberDescription,
)
from sharegroup.client.admin.group_requests import answer_error, check_group
from sharegroup.client.admin.topic_requests import by_topic
from sharegroup.client.core.committed_offsets import OffsetAndMetadata
from sharegroup.client.core.key_ranges import KeyRange, KeyRanges
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    from_bytes,
)
from sharegroup.wire.messages import consumer_group_describe as modern
from sharegroup.wire.messages import describe_groups as classic
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sharegroup.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

NO_GENERATION: Final = -1
_DEAD: Final = "Dead"
_CONSUMERS: Final = ("consumer", "")
"""The protocol types of consumer groups; it is empty if the group has only offsets."""


async def describe_consumer_group(cluster: Cluster, group_id: str) -> ConsumerGroupDescription:
    """ConsumerGroupDescribe; for a group of the classic protocol, DescribeGroups."""
    request = modern.ConsumerGroupDescribeRequest(group_ids=[group_id])
    try:
        response = await cluster.send_to_coordinator(
            group_id, apis.CONSUMER_GROUP_DESCRIBE, request
        )
        [group] = response.groups
        check_group(cluster, group_id, group)
    except (errors.GroupIdNotFound, errors.UnsupportedVersion):
        return await _describe_classic(cluster, group_id)
    return ConsumerGroupDescription(
        group_id=group.group_id,
        type="consumer",
        state=group.group_state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor_name,
        coordinator=await cluster.coordinator(group_id),
        members=tuple(_member(member) for member in group.members),
    )


def _member(member: modern.Member) -> ConsumerGroupMemberDescription:
    return ConsumerGroupMemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        topics=tuple(member.subscribed_topic_names),
        pattern=member.subscribed_topic_regex or None,
        assignment=_of_describe(member.assignment),
        target=_of_describe(member.target_assignment),
        key_ranges=_key_ranges(member.assignment),
    )


def _key_ranges(assignment: modern.Assignment | None) -> dict[TopicPartition, KeyRanges]:
    return {
        TopicPartition(topic.topic_name, part.partition): tuple(
            KeyRange(one.first, one.last) for one in part.ranges
        )
        for topic in (() if assignment is None else assignment.topic_partitions)
        for part in topic.key_ranges
    }


def _of_describe(assignment: modern.Assignment | None) -> tuple[TopicPartition, ...]:
    topics = () if assignment is None else assignment.topic_partitions
    return tuple(
        sorted(TopicPartition(t.topic_name, index) for t in topics for index in t.partitions)
    )


async def _describe_classic(cluster: Cluster, group_id: str) -> ConsumerGroupDescription:
    request = classic.DescribeGroupsRequest(groups=[group_id])
    response = await cluster.send_to_coordinator(group_id, apis.DESCRIBE_GROUPS, request)
    [group] = response.groups
    check_group(cluster, group_id, group)
    if group.group_state == _DEAD:
        raise errors.GroupIdNotFound(f"there is no group {group_id!r}")
    if group.protocol_type not in _CONSUMERS:
        raise errors.GroupIdNotFound(
            f"{group_id!r} is a group of {group.protocol_type!r}, not a consumer group"
        )
    return ConsumerGroupDescription(
        group_id=group.group_id,
        type="classic",
        state=group.group_state,
        group_epoch=None,
        assignment_epoch=None,
        assignor=group.protocol_data,
        coordinator=await cluster.coordinator(group_id),
        members=tuple(_classic_member(member) for member in group.members),
    )


def _classic_member(member: classic.DescribedGroupMember) -> ConsumerGroupMemberDescription:
    """The member as the broker describes it. What members tell one another in the classic protocol
    is their own affair: if it cannot be read, it counts as empty."""
    told, given = ConsumerProtocolSubscription(), ConsumerProtocolAssignment()
    try:
        told = from_bytes(ConsumerProtocolSubscription, bytes(member.member_metadata))
        given = from_bytes(ConsumerProtocolAssignment, bytes(member.member_assignment))
    except errors.MalformedMessage:  # also while the member waits for its assignment
        given = ConsumerProtocolAssignment()
    return ConsumerGroupMemberDescription(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        member_epoch=None,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=told.rack_id,
        topics=tuple(told.topics),
        pattern=None,
        assignment=_of_protocol(given.assigned_partitions),
        target=_of_protocol(given.assigned_partitions),
    )


def _of_protocol(topics: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(t.topic, index) for t in topics for index in t.partitions))


async def alter_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, errors.KafkaError | None]:
    """OffsetCommit from outside of the group; each partition with its error."""
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(index, one.offset, one.leader_epoch, one.metadata)
                for index in indexes
                for one in [offsets[TopicPartition(name, index)]]
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id="",
        topics=topics,
    )
    response = await cluster.send_to_coordinator(
        group_id, apis.OFFSET_COMMIT, request, version_max=LAST_BY_NAME[apis.OFFSET_COMMIT]
    )
    return {
        TopicPartition(topic.name, one.partition_index): _checked(cluster, group_id, one)
        for topic in response.topics
        for one in topic.partitions
    }


async def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, errors.KafkaError | None]:
    """OffsetDelete; each partition with its error."""
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes])
        for name, indexes in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    response = await cluster.send_to_coordinator(group_id, apis.OFFSET_DELETE, request)
    check_group(cluster, group_id, response, "DELETE")
    return {
        TopicPartition(topic.name, one.partition_index): _checked(cluster, group_id, one)
        for topic in response.topics
        for one in topic.partitions
    }


def _checked(cluster: Cluster, group_id: str, answer: object) -> errors.KafkaError | None:
    """The error of one partition. Raises it if it is transient, because a retry may help."""
    error = answer_error(answer)
    if error is not None and error.retriable and error.name != "UNKNOWN_TOPIC_OR_PARTITION":
        check_group(cluster, group_id, answer)
    return error


async def remove_members(
    cluster: Cluster, group_id: str, members: Sequence[MemberIdentity]
) -> dict[str, errors.KafkaError | None]:
    """LeaveGroup for these members; each with its error, by instance id or else by member id."""
    request = LeaveGroupRequest(group_id=group_id, members=members)
    response = await cluster.send_to_coordinator(group_id, apis.LEAVE_GROUP, request)
    check_group(cluster, group_id, response, "READ")
    return {
        one.group_instance_id or one.member_id: errors.error_from_code(one.error_code)
        if one.error_code
        else None
        for one in response.members
    }
