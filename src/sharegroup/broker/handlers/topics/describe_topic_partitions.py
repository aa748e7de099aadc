"""DescribeTopicPartitions: topics' partitions in order, cut into pages by a cursor (KIP-966)."""

from __future__ import annotations

from functools import partial

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.authorization.resources import topic as topic_resource
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.model import errors
from sharegroup.model.limits import DESCRIBED_PARTITIONS_MAX
from sharegroup.wire.messages.describe_topic_partitions import (
    CursorResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


async def describe_topic_partitions(
    parts: BrokerParts, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Topics in order of name; a request without names means all topics."""
    access = context.access
    names = sorted({topic.name for topic in request.topics})
    if not names:
        names = [
            topic.name
            for topic in parts.topics.all()
            if access.allows_topic(Operation.DESCRIBE, topic.name)
        ]
    first = 0
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise errors.InvalidRequest("a cursor's partition cannot be negative")
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index
    left = min(request.response_partition_limit, DESCRIBED_PARTITIONS_MAX)
    if left <= 0:
        raise errors.InvalidRequest("the partition limit of a response must be positive")
    response = DescribeTopicPartitionsResponse(next_cursor=None)
    topics = []
    for index, name in enumerate(names):
        start = first if cursor is not None and name == cursor.topic_name else 0
        if left <= 0:
            response.next_cursor = CursorResponse(name, start)
            break
        if not access.admits_topic(Operation.DESCRIBE, name):
            topics.append(_refused(name, errors.TopicAuthorizationFailed()))
            continue
        topic = parts.topics.find(name)
        if topic is None:
            unknown = _refused(name, errors.UnknownTopicOrPartition())
            unknown.topic_authorized_operations = access.operations(topic_resource(name))
            topics.append(unknown)
            continue
        end = min(topic.partition_count, start + left)
        described = _described(parts, topic, range(start, end))
        described.topic_authorized_operations = access.operations(topic_resource(name))
        topics.append(described)
        left -= end - start
        if end < topic.partition_count:
            response.next_cursor = CursorResponse(names[index], end)
            break
    response.topics = topics
    return response


def _refused(name: str, error: errors.KafkaError) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error.code, name=name)


def _described(
    parts: BrokerParts, topic: Topic, partitions: range
) -> DescribeTopicPartitionsResponseTopic:
    leader_of = partial(parts.leadership.leader, topic.topic_id)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=parts.topics.is_internal(topic.name),
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=leader.node_id,
                leader_epoch=leader.epoch,
                replica_nodes=[leader.node_id],
                isr_nodes=[leader.node_id],
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index, leader in zip(partitions, map(leader_of, partitions), strict=True)
        ],
    )
