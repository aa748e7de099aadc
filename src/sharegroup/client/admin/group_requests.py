"""``Admin``'s requests about groups: one attempt each; errors are raised."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sharegroup.client.admin.descriptions import (
    GroupListing,
    MemberDescription,
    ShareGroupDescription,
    ShareGroupOffset,
    ShareGroupSummary,
)
from sharegroup.client.admin.topic_requests import by_topic
from sharegroup.client.core.access_errors import error_on
from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.wire import apis
from sharegroup.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
)

SUMMARIES_AT_ONCE: Final = 200
"""Groups in one request: the broker serves others between two requests."""
FORK_FEATURE: Final = "share.group.fork"


async def list_groups(
    cluster: Cluster, types: Sequence[str], states: Sequence[str]
) -> list[GroupListing]:
    """ListGroups to every broker. The types are filtered here again, because brokers whose versions
    lack the filter answer with all groups.
    """
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    await cluster.refresh()  # there may be other brokers now
    nodes = list(cluster.metadata.nodes)
    responses = await asyncio.gather(
        *(cluster.send(node_id, apis.LIST_GROUPS, request) for node_id in nodes)
    )
    groups = []
    for response in responses:
        if response.error_code:
            raise errors.error_from_code(response.error_code)
        groups += [
            GroupListing(
                group_id=group.group_id,
                type=group.group_type,
                state=group.group_state,
                protocol_type=group.protocol_type,
            )
            for group in response.groups
            if not types or group.group_type.lower() in {one.lower() for one in types}
        ]
    return sorted(groups, key=lambda group: group.group_id)


async def describe_share_group(cluster: Cluster, group_id: str) -> ShareGroupDescription:
    """ShareGroupDescribe of one group."""
    request = ShareGroupDescribeRequest(group_ids=[group_id])
    response = await cluster.send_to_coordinator(group_id, apis.SHARE_GROUP_DESCRIBE, request)
    [group] = response.groups
    check_group(cluster, group_id, group)
    return _described(group, await cluster.coordinator(group_id))


def _described(group: DescribedGroup, coordinator: int) -> ShareGroupDescription:
    return ShareGroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(_member(member) for member in group.members),
    )


def _member(member: Member) -> MemberDescription:
    topics = member.assignment.topic_partitions if member.assignment is not None else ()
    partitions = [TopicPartition(t.topic_name, index) for t in topics for index in t.partitions]
    return MemberDescription(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        topics=tuple(member.subscribed_topic_names),
        assignment=tuple(sorted(partitions)),
        silent_ms=_known(member.silent_ms),
        session_left_ms=_known(member.session_left_ms),
    )


async def list_share_group_offsets(
    cluster: Cluster, group_id: str, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, ShareGroupOffset]:
    """DescribeShareGroupOffsets of these partitions; None: of all partitions that the group has."""
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(name, indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id, topics)]
    )
    response = await cluster.send_to_coordinator(
        group_id, apis.DESCRIBE_SHARE_GROUP_OFFSETS, request
    )
    [group] = response.groups
    check_group(cluster, group_id, group)
    check_partitions(cluster, group_id, (one for topic in group.topics for one in topic.partitions))
    return _offsets(group)


def _offsets(
    group: DescribeShareGroupOffsetsResponseGroup,
) -> dict[TopicPartition, ShareGroupOffset]:
    return {
        TopicPartition(topic.topic_name, partition.partition_index): _offset(partition)
        for topic in sorted(group.topics, key=lambda topic: str(topic.topic_name))
        for partition in sorted(topic.partitions, key=lambda p: int(p.partition_index))
    }


async def summarize_share_groups(
    cluster: Cluster, groups: Sequence[str]
) -> dict[str, ShareGroupSummary | errors.KafkaError]:
    """DescribeShareGroupOffsets of many groups, SUMMARIES_AT_ONCE in a request. Each group with its
    error."""
    await cluster.refresh()
    nodes = list(cluster.metadata.nodes)
    by_node: dict[int, list[str]] = {}
    for name in groups:  # a single node coordinates all groups, so nobody is asked which one does
        node = nodes[0] if len(nodes) == 1 else await cluster.coordinator(name)
        by_node.setdefault(node, []).append(name)
    found: dict[str, ShareGroupSummary | errors.KafkaError] = {}
    for own in by_node.values():
        for at in range(0, len(own), SUMMARIES_AT_ONCE):
            found |= await _summaries(cluster, own[at : at + SUMMARIES_AT_ONCE])
    return found


async def _summaries(
    cluster: Cluster, groups: Sequence[str]
) -> dict[str, ShareGroupSummary | errors.KafkaError]:
    """Of groups with one coordinator. A broker that does not tell the number of members is asked
    for it by ShareGroupDescribe."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(one, None, counts=True) for one in groups]
    )
    asked = apis.DESCRIBE_SHARE_GROUP_OFFSETS
    response = await cluster.send_to_coordinator(groups[0], asked, request)
    members = {one.group_id: one.member_count for one in response.groups if one.member_count >= 0}
    if not members:
        describe = ShareGroupDescribeRequest(group_ids=list(groups))
        described = await cluster.send_to_coordinator(
            groups[0], apis.SHARE_GROUP_DESCRIBE, describe
        )
        members = {one.group_id: len(one.members) for one in described.groups}
    found: dict[str, ShareGroupSummary | errors.KafkaError] = {}
    for group in response.groups:
        name = group.group_id
        try:
            check_group(cluster, name, group)
            summary = ShareGroupSummary(
                members=members.get(name, 0),
                silent=max(0, group.silent_count),
                offsets=_offsets(group),
            )
        except errors.KafkaError as error:
            found[name] = error
        else:
            found[name] = summary
    return found


def _offset(partition: DescribeShareGroupOffsetsResponsePartition) -> ShareGroupOffset:
    return ShareGroupOffset(
        start_offset=_known(partition.start_offset),
        leader_epoch=partition.leader_epoch,
        lag=_known(partition.lag),
        in_flight=_known(partition.in_flight_count),
        error=answer_error(partition),
        damaged=damaged_of(partition),
        begins_at=_known(partition.begins_at),
        delayed=_known(partition.delayed_count),
        dead=_known(partition.dead_count),
        oldest_ms=_known(partition.oldest_ms),
        redelivered=_known(partition.redelivered_count),
    )


def damaged_of(partition: DescribeShareGroupOffsetsResponsePartition) -> tuple[OffsetRange, ...]:
    """The damaged ranges of the partition's log, if the broker reports them."""
    return tuple(OffsetRange(each.first_offset, each.last_offset) for each in partition.damaged)


def _known(number: int) -> int | None:
    return number if number >= 0 else None


async def alter_share_group_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, errors.KafkaError | None]:
    """AlterShareGroupOffsets; each partition with its error."""
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                name,
                [
                    AlterShareGroupOffsetsRequestPartition(i, offsets[TopicPartition(name, i)])
                    for i in indexes
                ],
            )
            for name, indexes in by_topic(offsets).items()
        ],
    )
    response = await cluster.send_to_coordinator(group_id, apis.ALTER_SHARE_GROUP_OFFSETS, request)
    check_group(cluster, group_id, response, "READ")
    return {
        TopicPartition(topic.topic_name, partition.partition_index): answer_error(partition)
        for topic in response.responses
        for partition in topic.partitions
    }


async def fork_share_group(cluster: Cluster, source: str, group_id: str) -> list[TopicPartition]:
    """AlterShareGroupOffsets as a fork; the partitions that the group has from ``source``."""
    await describe_share_group(cluster, source)  # an error if it does not exist
    if FORK_FEATURE not in cluster.features:
        raise errors.UnsupportedVersion(
            "the broker cannot let a group begin with another group's state"
        )
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=[], fork_of=source)
    response = await cluster.send_to_coordinator(group_id, apis.ALTER_SHARE_GROUP_OFFSETS, request)
    check_group(cluster, group_id, response, "READ")
    return [
        TopicPartition(topic.topic_name, partition.partition_index)
        for topic in response.responses
        for partition in topic.partitions
    ]


async def delete_share_group_offsets(
    cluster: Cluster, group_id: str, topics: Sequence[str]
) -> dict[str, errors.KafkaError | None]:
    """DeleteShareGroupOffsets; each topic with its error."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
    )
    response = await cluster.send_to_coordinator(group_id, apis.DELETE_SHARE_GROUP_OFFSETS, request)
    check_group(cluster, group_id, response, "DELETE")
    return {topic.topic_name: answer_error(topic) for topic in response.responses}


async def delete_group(cluster: Cluster, group_id: str) -> None:
    """DeleteGroups of one group."""
    request = DeleteGroupsRequest(groups_names=[group_id])
    response = await cluster.send_to_coordinator(group_id, apis.DELETE_GROUPS, request)
    [result] = response.results
    check_group(cluster, group_id, result, "DELETE")


def answer_error(answer: Any) -> errors.KafkaError | None:
    """The error that an answer, or a part of it, carries."""
    if not answer.error_code:
        return None
    return errors.error_from_code(answer.error_code, getattr(answer, "error_message", None) or None)


def check_partitions(cluster: Cluster, group_id: str, answers: Iterable[Any]) -> None:
    """Raise the first transient error of a partition: in a fleet, a part of the group may just
    move. A log that could not be opened is retriable in Kafka, but stays so."""
    for one in answers:
        error = answer_error(one)
        lasting = isinstance(error, errors.UnknownTopicOrPartition | errors.KafkaStorageError)
        if error is not None and error.retriable and not lasting:
            check_group(cluster, group_id, one)


def check_group(cluster: Cluster, group_id: str, answer: Any, operation: str = "DESCRIBE") -> None:
    """Raise the answer's error. If the node does not coordinate the group, it is not asked again.

    Args:
        operation: what was asked for, as ACLs call it.
    """
    if not answer.error_code:
        return
    text = getattr(answer, "error_message", None) or None
    error = error_on(answer.error_code, text, operation, f"group {group_id!r}")
    if isinstance(error, errors.NotCoordinator | errors.CoordinatorNotAvailable):
        cluster.forget_coordinator(group_id)
    raise error
