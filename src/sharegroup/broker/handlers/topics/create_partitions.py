"""CreatePartitions: add partitions to topics; partitions are never removed."""

from __future__ import annotations

from collections import Counter

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def create_partitions(
    parts: BrokerParts, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    """Each topic on its own. As in Kafka, a topic named twice is refused, with one result."""
    named = Counter(topic.name for topic in request.topics)
    twice = errors.InvalidRequest("Duplicate topic name.")
    return CreatePartitionsResponse(
        results=[
            *(_refused(name, twice) for name, times in named.items() if times > 1),
            *[
                await _grow(parts, topic, context, request.validate_only)
                for topic in request.topics
                if named[topic.name] == 1
            ],
        ]
    )


def _refused(name: str, error: errors.KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name, error.code, error.message)


async def _grow(
    parts: BrokerParts, topic: CreatePartitionsTopic, context: RequestContext, validate_only: bool
) -> CreatePartitionsTopicResult:
    try:
        context.access.require_topic(Operation.ALTER, topic.name)
        if parts.topics.is_internal(topic.name):
            raise errors.InvalidTopic(f"{topic.name} is internal; its partitions are fixed")
        _check_assignments(parts, topic)
        if context.mutations is not None:
            await parts.topics.grow(topic.name, topic.count, validate_only=True)
            found = parts.topics.find(topic.name)
            context.mutations.charge(topic.count - (found.partition_count if found else 0))
        await parts.topics.grow(topic.name, topic.count, validate_only=validate_only)
    except errors.KafkaError as error:
        return _refused(topic.name, error)
    return CreatePartitionsTopicResult(topic.name)


def _check_assignments(parts: BrokerParts, topic: CreatePartitionsTopic) -> None:
    """Check the assignments, if the request has any: one for each new partition, to this node."""
    if topic.assignments is None:
        return
    found = parts.topics.find(topic.name)
    more = topic.count - (found.partition_count if found else 0)
    if found and more > 0 and more != len(topic.assignments):
        raise errors.InvalidReplicaAssignment(
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(topic.assignments)} assignment(s) were specified."
        )
    if any(list(a.broker_ids) != [parts.node_id] for a in topic.assignments):
        raise errors.InvalidReplicaAssignment(
            f"Every partition can only be on broker {parts.node_id}."
        )
