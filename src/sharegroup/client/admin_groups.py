"""What ``Admin`` asks about groups: one attempt each, errors raised."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sharegroup.client.cluster import Cluster
from sharegroup.client.descriptions import (
    GroupListing,
    MemberDescription,
    ShareGroupDescription,
    ShareGroupOffset,
)
from sharegroup.model.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    error_from_code,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from sharegroup.wire.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
)


async def list_groups(cluster: Cluster, types: Sequence[str]) -> list[GroupListing]:
    """ListGroups of every broker."""
    request = ListGroupsRequest(types_filter=list(types))
    nodes = list(cluster.metadata.nodes)
    responses = await asyncio.gather(
        *(cluster.send(node_id, apis.LIST_GROUPS, request) for node_id in nodes)
    )
    groups = []
    for response in responses:
        if response.error_code:
            raise error_from_code(response.error_code)
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


async def describe_share_groups(
    cluster: Cluster, groups: Sequence[str]
) -> dict[str, ShareGroupDescription]:
    """ShareGroupDescribe, at each group's coordinator."""
    described = {}
    for group_id in groups:
        request = ShareGroupDescribeRequest(group_ids=[group_id])
        response = await cluster.send_to_coordinator(group_id, apis.SHARE_GROUP_DESCRIBE, request)
        [group] = response.groups
        _check(cluster, group_id, group)
        described[group_id] = _described(group, await cluster.coordinator(group_id))
    return described


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
    )


async def list_share_group_offsets(
    cluster: Cluster, group_id: str
) -> dict[TopicPartition, ShareGroupOffset]:
    """DescribeShareGroupOffsets of all partitions."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id, None)]
    )
    response = await cluster.send_to_coordinator(
        group_id, apis.DESCRIBE_SHARE_GROUP_OFFSETS, request
    )
    [group] = response.groups
    _check(cluster, group_id, group)
    return {
        TopicPartition(topic.topic_name, partition.partition_index): _offset(partition)
        for topic in sorted(group.topics, key=lambda topic: str(topic.topic_name))
        for partition in sorted(topic.partitions, key=lambda p: int(p.partition_index))
    }


def _offset(partition: DescribeShareGroupOffsetsResponsePartition) -> ShareGroupOffset:
    return ShareGroupOffset(
        start_offset=_known(partition.start_offset),
        leader_epoch=partition.leader_epoch,
        lag=_known(partition.lag),
        in_flight=_known(partition.in_flight_count),
        error=error_from_code(partition.error_code, partition.error_message)
        if partition.error_code
        else None,
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None


async def delete_groups(cluster: Cluster, groups: Sequence[str]) -> None:
    """DeleteGroups, at each group's coordinator."""
    for group_id in groups:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response = await cluster.send_to_coordinator(group_id, apis.DELETE_GROUPS, request)
        [result] = response.results
        _check(cluster, group_id, result)


def _check(cluster: Cluster, group_id: str, answer: Any) -> None:
    if not answer.error_code:
        return
    error: KafkaError = error_from_code(
        answer.error_code, getattr(answer, "error_message", None) or None
    )
    if isinstance(error, NotCoordinator | CoordinatorNotAvailable):
        cluster.forget_coordinator(group_id)
    raise error
