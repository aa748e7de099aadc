"""Members of consumer groups (KIP-848), played by hand, and their offsets. Virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sharegroup.wire import apis
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sharegroup.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sharegroup.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.group_wire import Assigned, World

GROUP = "readers"
EAGER = "group.consumer.assignment.interval.ms=0"


async def beat(world: World, member: str, epoch: int, **more: Any) -> Any:
    """A heartbeat; ``owned`` as an assignment says it."""
    owned = more.pop("owned", None)
    request = ConsumerGroupHeartbeatRequest(
        more.pop("group", GROUP),
        member,
        epoch,
        topic_partitions=None
        if owned is None
        else [TopicPartitions(topic_id, held) for topic_id, held in owned.items()],
        **more,
    )
    return await world.send(apis.CONSUMER_GROUP_HEARTBEAT, request)


async def join(
    world: World, member: str, topics: Sequence[str] | None = ("foo",), **more: Any
) -> Any:
    more.setdefault("rebalance_timeout_ms", 60_000)
    return await beat(world, member, 0, subscribed_topic_names=topics, owned={}, **more)


async def describe(world: World, group: str = GROUP) -> Any:
    request = ConsumerGroupDescribeRequest([group])
    (described,) = (await world.send(apis.CONSUMER_GROUP_DESCRIBE, request)).groups
    return described


def held(assignment: Any) -> Assigned:
    return {topic.topic_id: list(topic.partitions) for topic in assignment.topic_partitions}


async def commit(world: World, member_id: str, epoch: int, offset: int, group: str = GROUP) -> int:
    """The error code of a commit to partition 0 of foo."""
    places = [OffsetCommitRequestPartition(0, offset)]
    topic = world.broker.parts.topics.find("foo")
    assert topic is not None
    topics = [OffsetCommitRequestTopic(name="foo", topic_id=topic.topic_id, partitions=places)]
    request = OffsetCommitRequest(group, epoch, member_id, topics=topics)
    answer = await world.send(apis.OFFSET_COMMIT, request)
    return int(answer.topics[0].partitions[0].error_code)


async def fetch(world: World, group: str = GROUP) -> int:
    """The committed offset of partition 0 of foo."""
    topic = world.broker.parts.topics.find("foo")
    assert topic is not None
    asked = OffsetFetchRequestTopics(name="foo", topic_id=topic.topic_id, partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[asked])])
    answer = await world.send(apis.OFFSET_FETCH, request)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)
