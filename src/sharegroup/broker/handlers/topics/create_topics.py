"""CreateTopics: each topic on its own; replication factor and assignments are checked against one
node."""

from __future__ import annotations

from collections import Counter

from sharegroup.broker.authorization.hidden import hide_configs
from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.configs.topic import check_topic_configs, describe_topic_configs
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model import errors
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def create_topics(
    parts: BrokerParts, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    """Each topic on its own. As in Kafka, a topic named twice is refused, with one result."""
    named = Counter(topic.name for topic in request.topics)
    twice = errors.InvalidRequest("Duplicate topic name.")
    results = [_refused(name, twice) for name, times in named.items() if times > 1]
    for topic in request.topics:
        if named[topic.name] > 1:
            continue
        try:
            if not context.access.allows(Operation.CREATE, CLUSTER):
                context.access.require_topic(Operation.CREATE, topic.name)
            made = await _create(parts, topic, context, request.validate_only)
            if not context.access.allows_topic(Operation.DESCRIBE_CONFIGS, topic.name):
                hide_configs(made)
            results.append(made)
        except errors.KafkaError as error:
            results.append(_refused(topic.name, error))
    return CreateTopicsResponse(topics=results)


def failure(request: CreateTopicsRequest, error: errors.KafkaError) -> CreateTopicsResponse:
    """Every topic says ``error``."""
    return CreateTopicsResponse(topics=[_refused(topic.name, error) for topic in request.topics])


def _refused(name: str, error: errors.KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=None
    )


def _configs(topic: CreatableTopic) -> dict[str, str]:
    nulls = [one.name for one in topic.configs if one.value is None]
    if nulls:
        raise errors.InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {one.name: one.value or "" for one in topic.configs}
    check_topic_configs(configs)
    return configs


async def _create(
    parts: BrokerParts, topic: CreatableTopic, context: RequestContext, validate_only: bool
) -> CreatableTopicResult:
    configs = _configs(topic)
    count = _partitions(parts, topic)
    if context.mutations is not None:
        asked = await parts.topics.create(topic.name, count, configs, validate_only=True)
        context.mutations.charge(asked.partition_count)
    made = await parts.topics.create(topic.name, count, configs, validate_only=validate_only)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=made.topic_id,
        error_message=None,
        num_partitions=made.partition_count,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(
                entry.name, entry.value, entry.read_only, entry.source, entry.sensitive
            )
            for entry in describe_topic_configs(configs, parts.configs.broker)
        ],
    )


def _partitions(parts: BrokerParts, topic: CreatableTopic) -> int:
    """The partition count that the request asks for."""
    if not topic.assignments:
        if topic.replication_factor not in (-1, 1):
            raise errors.InvalidReplicationFactor(
                f"Replication factor {topic.replication_factor} is not possible: there is 1 broker."
            )
        return topic.num_partitions
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise errors.InvalidRequest("Give either assignments or a partition count, not both.")
    indexes = sorted(assignment.partition_index for assignment in topic.assignments)
    if indexes != list(range(len(indexes))):
        raise errors.InvalidReplicaAssignment(
            "partitions should be a consecutive 0-based integer sequence"
        )
    if any(list(a.broker_ids) != [parts.node_id] for a in topic.assignments):
        raise errors.InvalidReplicaAssignment(
            f"Every partition can only be on broker {parts.node_id}."
        )
    return len(indexes)
