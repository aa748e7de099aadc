"""AlterShareGroupOffsets: reset an empty share group to given start offsets. Its records in flight
and delivery counts are discarded.

As in Kafka, a group that does not exist is created.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sharegroup.broker.authorization.audit import tell_groups
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.coordination.share_group_coordinator import NewStart
from sharegroup.broker.delivery.forks import choose_start
from sharegroup.broker.handlers.share.offsets_of_nodes import held_at
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.groups.share.records import TopicPartitions
from sharegroup.model import errors
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.offsets import UNKNOWN_OFFSET
from sharegroup.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

logger = logging.getLogger("sharegroup.broker")

GROUP: Final = 0
"""The key type of groups in FindCoordinator."""


async def alter_share_group_offsets(
    parts: BrokerParts, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    """Valid partitions are altered together; each partition has its own result."""
    context.access.require_group(Operation.READ, request.group_id)
    if not request.group_id:
        raise errors.InvalidGroupId
    if request.fork_of:
        return await _fork(parts, request, context)
    starts: list[NewStart] = []
    responses = [_topic(parts, wanted, starts, context) for wanted in request.topics]
    await parts.groups.alter_offsets(request.group_id, starts)
    for start in starts:
        parts.share_partitions.forget(request.group_id, start.topic_id, start.partition)
    return AlterShareGroupOffsetsResponse(responses=responses)


async def _fork(
    parts: BrokerParts, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    """Begin with the state of another group. It takes permissions on all its topics."""
    context.access.require_group(Operation.READ, request.fork_of)
    if request.topics:
        raise errors.InvalidRequest("A fork has all topics of the group that it is of.")
    held = await _held_by(parts, request.fork_of, context)
    for topic in held:
        context.access.require_topic(Operation.READ, topic.name)
    for topic in held:
        for index in topic.partitions:
            key = SharePartitionKey(request.fork_of, topic.topic_id, index)
            if parts.other_nodes is None or parts.other_nodes.owner_of(key) == parts.node_id:
                await choose_start(parts, key)
    await parts.groups.fork(request.group_id, request.fork_of, held)
    for topic in held:
        for partition in topic.partitions:
            parts.share_partitions.forget(request.group_id, topic.topic_id, partition)
    names = f"{request.fork_of} as {request.group_id}"
    tell_groups(context.access.principal, context.access.host, "forked a group", names)
    return AlterShareGroupOffsetsResponse(
        responses=[
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    AlterShareGroupOffsetsResponsePartition(partition_index=index)
                    for index in topic.partitions
                ],
            )
            for topic in held
        ]
    )


async def _held_by(
    parts: BrokerParts, group_id: str, context: RequestContext
) -> Sequence[TopicPartitions]:
    """Where a group has state. Raises GroupIdNotFound."""
    node_id = parts.leadership.coordinator(GROUP, group_id, context.advertised).node_id
    if parts.other_nodes is not None and node_id != parts.node_id:
        return await held_at(parts.other_nodes, node_id, group_id)
    parts.groups.groups.describe(group_id)  # an error if it does not exist
    return parts.groups.groups.state_partitions(group_id)


def _topic(
    parts: BrokerParts,
    wanted: AlterShareGroupOffsetsRequestTopic,
    starts: list[NewStart],
    context: RequestContext,
) -> AlterShareGroupOffsetsResponseTopic:
    response = AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
    if not context.access.admits_topic(Operation.READ, wanted.topic_name):
        denied = errors.TopicAuthorizationFailed()
        response.partitions = [_refused(part.partition_index, denied) for part in wanted.partitions]
        return response
    topic = parts.topics.find(wanted.topic_name)
    if topic is not None:
        response.topic_id = topic.topic_id
    response.partitions = [_partition(topic, part, starts) for part in wanted.partitions]
    return response


def _partition(
    topic: Topic | None, wanted: AlterShareGroupOffsetsRequestPartition, starts: list[NewStart]
) -> AlterShareGroupOffsetsResponsePartition:
    index = wanted.partition_index
    if topic is None or not 0 <= index < topic.partition_count:
        return _refused(index, errors.UnknownTopicOrPartition())
    if wanted.start_offset < UNKNOWN_OFFSET:
        return _refused(
            index, errors.InvalidRequest(f"Start offset {wanted.start_offset} is negative.")
        )
    starts.append(NewStart(topic.topic_id, topic.name, index, wanted.start_offset))
    return AlterShareGroupOffsetsResponsePartition(partition_index=index)


def _refused(index: int, error: errors.KafkaError) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=error.code, error_message=error.message
    )
