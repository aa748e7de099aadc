"""Pictures of share groups, taken on the broker's own thread."""

from __future__ import annotations

from sharegroup.broker.delivery.next_record import NextRecords
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.read_model import share_groups
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.testing.views import GroupView, PartitionView, RangeView

EVERY_RANGE = 1 << 62


async def look_at_group(parts: BrokerParts, group_id: str) -> GroupView:
    """The group as it is now; a group that does not exist is ``Dead`` and empty."""
    try:
        group = parts.views.share_groups.group(group_id)
    except GroupIdNotFound:
        return GroupView(group_id=group_id, state="Dead", members={}, partitions={})
    partitions = {}
    for topic in group.partitions:
        for partition in topic.partitions:
            key = SharePartitionKey(group_id, topic.topic_id, partition)
            where = TopicPartition(topic.topic, partition)
            partitions[where] = await _partition(parts, key, where)
    return GroupView(
        group_id=group_id,
        state=group.state,
        members={member.member_id: _assigned(member) for member in group.members},
        partitions=partitions,
    )


def _assigned(member: share_groups.MemberView) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic, partition)
        for topic in member.assignment
        for partition in topic.partitions
    )


async def _partition(
    parts: BrokerParts, key: SharePartitionKey, where: TopicPartition
) -> PartitionView:
    log = parts.topics.log(*where)
    window = await parts.views.share_groups.window(key)
    if not window.begun:
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
    await parts.share_partitions.get(key, log)  # loaded: durable state alone has no counts
    window = await parts.views.share_groups.window(key)
    records = await parts.views.share_groups.records(key, 0, EVERY_RANGE)
    return PartitionView(
        start_offset=window.start_offset,
        end_offset=log.high_watermark,
        lag=window.lag(await parts.views.share_groups.records_end(key, log, NextRecords())),
        in_flight=window.in_flight,
        available=window.available,
        acknowledged=window.acknowledged,
        archived=window.archived,
        ranges=tuple(_range(one) for one in records.ranges),
    )


def _range(one: share_groups.RangeView) -> RangeView:
    return RangeView(
        first=one.first,
        last=one.last,
        state=one.state.name,
        delivery_count=one.delivery_count,
        member_id=one.member_id,
    )
