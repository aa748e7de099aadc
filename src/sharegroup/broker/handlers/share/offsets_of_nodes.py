"""DescribeShareGroupOffsets in a fleet: a group's coordinator asks the nodes that lead the
partitions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sharegroup.broker.leadership import OtherNodes
from sharegroup.broker.parts import BrokerParts
from sharegroup.groups.share.records import TopicPartitions
from sharegroup.model.errors import CoordinatorNotAvailable, GroupIdNotFound, KafkaError
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.offsets import UNKNOWN_OFFSET
from sharegroup.wire import apis
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

VERSION: Final = 1
Asked = Sequence[tuple[str, Sequence[int]]]
"""Topics, each with partitions."""


def split(
    parts: BrokerParts, group_id: str, asked: Asked
) -> tuple[Asked, Mapping[int, dict[str, list[int]]]]:
    """The partitions that this node answers for, and those of each other node."""
    if parts.other_nodes is None:
        return asked, {}
    here: list[tuple[str, Sequence[int]]] = []
    elsewhere: defaultdict[int, dict[str, list[int]]] = defaultdict(dict)
    for name, partitions in asked:
        topic = parts.topics.find(name)
        if topic is None:
            here.append((name, partitions))
            continue
        own = []
        for partition in partitions:
            key = SharePartitionKey(group_id, topic.topic_id, partition)
            owner = parts.other_nodes.owner_of(key)
            if owner == parts.node_id or not 0 <= partition < topic.partition_count:
                own.append(partition)
            else:
                elsewhere[owner].setdefault(name, []).append(partition)
        here.append((name, own))
    return here, elsewhere


async def add_from_nodes(
    others: OtherNodes,
    wanted: DescribeShareGroupOffsetsRequestGroup,
    elsewhere: Mapping[int, dict[str, list[int]]],
    response: DescribeShareGroupOffsetsResponseGroup,
) -> None:
    """Add what other nodes say of their partitions, or why they say nothing."""
    found = await asyncio.gather(
        *(_ask(others, wanted, node_id, topics) for node_id, topics in elsewhere.items())
    )
    by_name = {topic.topic_name: topic for topic in response.topics}
    for topics in found:
        for topic in topics:
            known = by_name[topic.topic_name]
            both = [*known.partitions, *topic.partitions]
            known.partitions = sorted(both, key=lambda one: one.partition_index)


async def _ask(
    others: OtherNodes,
    wanted: DescribeShareGroupOffsetsRequestGroup,
    node_id: int,
    topics: Mapping[str, list[int]],
) -> Sequence[DescribeShareGroupOffsetsResponseTopic]:
    group = replace(
        wanted,
        topics=[DescribeShareGroupOffsetsRequestTopic(*topic) for topic in topics.items()],
    )
    request = DescribeShareGroupOffsetsRequest([group])
    try:
        if node_id < 0:
            raise CoordinatorNotAvailable("no broker leads the partition now")
        api = apis.DESCRIBE_SHARE_GROUP_OFFSETS
        [answer] = (await others.ask(node_id, api, VERSION, request)).groups
    except KafkaError as error:
        return [refused(name, partitions, error) for name, partitions in topics.items()]
    found: Sequence[DescribeShareGroupOffsetsResponseTopic] = answer.topics
    return found


async def held_at(others: OtherNodes, node_id: int, group_id: str) -> Sequence[TopicPartitions]:
    """Where a group has state that another node coordinates.

    Raises:
        GroupIdNotFound: it has none.
        KafkaError: the node does not answer.
    """
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest([wanted])
    [answer] = (
        await others.ask(node_id, apis.DESCRIBE_SHARE_GROUP_OFFSETS, VERSION, request)
    ).groups
    if not answer.topics:
        raise GroupIdNotFound(f"Group {group_id} not found.")
    return [
        TopicPartitions(
            topic.topic_id, topic.topic_name, tuple(one.partition_index for one in topic.partitions)
        )
        for topic in answer.topics
    ]


def refused(
    name: str, partitions: Sequence[int], error: KafkaError
) -> DescribeShareGroupOffsetsResponseTopic:
    """The same error for all partitions of a topic."""
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=partition,
                start_offset=UNKNOWN_OFFSET,
                error_code=error.code,
                error_message=error.message,
            )
            for partition in partitions
        ],
    )
