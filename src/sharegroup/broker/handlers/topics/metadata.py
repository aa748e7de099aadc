"""Metadata: this node, and topics with their partitions, by name or id."""

from __future__ import annotations

from functools import partial
from typing import Final

from sharegroup.broker.authorization.resources import (
    CLUSTER,
    OPERATIONS_NOT_ASKED,
    Operation,
)
from sharegroup.broker.authorization.resources import topic as topic_resource
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.broker.topics import Topic
from sharegroup.model import errors
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sharegroup.wire.refusal import refuser

HIDDEN: Final = (errors.TopicAuthorizationFailed.code, errors.UnknownTopicId.code)
"""With these errors the answer does not list the operations that are allowed on the topic."""


async def metadata(
    parts: BrokerParts, request: MetadataRequest, context: RequestContext
) -> MetadataResponse:
    """The topics that the request names. Null (in version 0: an empty list) stands for all topics;
    an empty list from version 1 on stands for no topic."""
    access = context.access
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if everything:
        topics = [
            _described(parts, topic)
            async for topic in sliced(parts.topics.all())
            if access.allows_topic(Operation.DESCRIBE, topic.name)
        ]
    else:
        topics = [
            await _wanted(parts, wanted, context, create=request.allow_auto_topic_creation)
            async for wanted in sliced(request.topics or ())
        ]
    if request.include_topic_authorized_operations:
        for described in topics:
            if described.name and described.error_code not in HIDDEN:
                described.topic_authorized_operations = access.operations(
                    topic_resource(described.name)
                )
    operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        allowed = access.allows(Operation.DESCRIBE, CLUSTER)
        operations = access.operations(CLUSTER) if allowed else 0
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*n) for n in parts.leadership.nodes(context.advertised)],
        cluster_id=parts.topics.cluster_id,
        controller_id=parts.leadership.controller_id,
        cluster_authorized_operations=operations,
        topics=topics,
    )


failure = refuser(MetadataResponse)
"""The request and each of its parts say the error."""


async def _wanted(
    parts: BrokerParts, wanted: MetadataRequestTopic, context: RequestContext, *, create: bool
) -> MetadataResponseTopic:
    try:
        if wanted.name is None or wanted.topic_id != NULL_TOPIC_ID:  # an id wins, as in Kafka
            topic = parts.topics.find_id(wanted.topic_id)
            if topic is None:
                raise errors.UnknownTopicId
            context.access.require_topic(Operation.DESCRIBE, topic.name)
        else:
            context.access.require_topic(Operation.DESCRIBE, wanted.name)
            topic = parts.topics.find(wanted.name)
            if topic is None and create and parts.configs.broker.flag("auto.create.topics.enable"):
                if not context.access.allows(Operation.CREATE, CLUSTER):
                    context.access.require_topic(Operation.CREATE, wanted.name)
                topic = await parts.topics.auto_create(wanted.name)
                if context.mutations is not None:
                    context.mutations.charge(topic.partition_count)
            if topic is None:
                parts.topics.check_name(wanted.name)
                raise errors.UnknownTopicOrPartition
    except errors.KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=wanted.name, topic_id=wanted.topic_id
        )
    return _described(parts, topic)


def _described(parts: BrokerParts, topic: Topic) -> MetadataResponseTopic:
    leader_of = partial(parts.leadership.leader, topic.topic_id)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=parts.topics.is_internal(topic.name),
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader.node_id,
                leader_epoch=leader.epoch,
                replica_nodes=[leader.node_id],
                isr_nodes=[leader.node_id],
            )
            for index, leader in enumerate(map(leader_of, range(topic.partition_count)))
        ],
    )
