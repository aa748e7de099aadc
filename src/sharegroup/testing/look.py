"""Pictures of share groups, taken on the broker's own thread."""

from __future__ import annotations

from sharegroup.broker.server import Broker
from sharegroup.groups.group import GroupDescription
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.model.offsets import UNKNOWN_OFFSET
from sharegroup.share.partition import SharePartition
from sharegroup.share.spans import Span
from sharegroup.testing.views import GroupView, PartitionView, RangeView


async def look_at_group(broker: Broker, group_id: str) -> GroupView:
    """The group as it is now; a group that does not exist is ``Dead`` and empty."""
    try:
        group = broker.parts.groups.groups.describe(group_id)
    except GroupIdNotFound:
        return GroupView(group_id=group_id, state="Dead", members={}, partitions={})
    partitions = {}
    for topic in group.initialized:
        found = broker.parts.topics.find_id(topic.topic_id)
        for partition in topic.partitions if found is not None else ():
            key = SharePartitionKey(group_id, topic.topic_id, partition)
            where = TopicPartition(topic.name, partition)
            partitions[where] = await _partition(broker, key, where)
    return GroupView(
        group_id=group_id,
        state=group.state.value,
        members=_members(broker, group),
        partitions=partitions,
    )


def _members(broker: Broker, group: GroupDescription) -> dict[str, frozenset[TopicPartition]]:
    names = {topic.topic_id: topic.name for topic in broker.parts.topics.all()}
    return {
        member.member_id: frozenset(
            TopicPartition(names[topic_id], partition)
            for topic_id, partitions in member.assignment.items()
            if topic_id in names
            for partition in partitions
        )
        for member in group.members
    }


async def _partition(
    broker: Broker, key: SharePartitionKey, where: TopicPartition
) -> PartitionView:
    log = broker.parts.topics.log(*where)
    if (await broker.parts.state.read_summary(key)).start_offset == UNKNOWN_OFFSET:
        return PartitionView(
            start_offset=None,
            end_offset=log.high_watermark,
            lag=0,
            in_flight=0,
            available=0,
            acknowledged=0,
            archived=0,
            ranges=(),
        )
    led = await broker.parts.share_partitions.get(key, log)
    return _window(led.core, log.high_watermark)


def _window(core: SharePartition, end_offset: int) -> PartitionView:
    now = core.statistics()
    return PartitionView(
        start_offset=now.start_offset,
        end_offset=end_offset,
        lag=end_offset - now.start_offset - now.acknowledged - now.archived,
        in_flight=now.acquired,
        available=now.available,
        acknowledged=now.acknowledged,
        archived=now.archived,
        ranges=tuple(_range(span) for span in core.spans()),
    )


def _range(span: Span) -> RangeView:
    return RangeView(
        first=span.first,
        last=span.last,
        state=span.state.name,
        delivery_count=max(0, span.delivery_count),  # -1: never in the log
        member_id=None if span.lock is None else span.lock.member_id,
    )
