"""OffsetDelete: forget a group's committed offsets of partitions that it does not read."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def offset_delete(
    parts: BrokerParts, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse:
    """Each partition has its own result; deleting an offset that does not exist succeeds."""
    context.access.require_group(Operation.DELETE, request.group_id)
    if not request.group_id:
        raise errors.InvalidGroupId
    codes: dict[TopicPartition, int] = {}
    for topic in request.topics:
        known = parts.topics.find(topic.name)
        allowed = context.access.admits_topic(Operation.READ, topic.name)
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.partition_index)
            if not allowed:
                codes[where] = errors.TopicAuthorizationFailed.code
            elif known is None or not 0 <= where.partition < known.partition_count:
                codes[where] = errors.UnknownTopicOrPartition.code
            else:
                codes[where] = 0
    wanted = [where for where, code in codes.items() if code == 0]
    kept = await parts.offsets.delete(request.group_id, wanted)
    for where in wanted:
        if where.topic in kept:
            codes[where] = errors.GroupSubscribedToTopic.code
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                topic.name,
                [
                    OffsetDeleteResponsePartition(
                        partition.partition_index,
                        codes[TopicPartition(topic.name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
