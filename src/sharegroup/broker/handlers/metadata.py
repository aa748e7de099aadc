"""Metadata: this node, and topics with their partitions, by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharegroup.broker.authorization.resources import (
    CLUSTER,
    OPERATIONS_NOT_ASKED,
    Operation,
)
from sharegroup.broker.authorization.resources import topic as topic_resource
from sharegroup.broker.network.context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.model.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker


async def metadata(
    broker: Broker, request: MetadataRequest, context: RequestContext
) -> MetadataResponse:
    """All topics for null (at v0 an empty list), none for an empty list, or the topics named."""
    access = context.access
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if everything:
        topics = [
            _described(broker, topic)
            for topic in broker.topics.all()
            if access.allows_topic(Operation.DESCRIBE, topic.name)
        ]
    else:
        topics = [
            await _wanted(broker, wanted, context, create=request.allow_auto_topic_creation)
            for wanted in request.topics or ()
        ]
    if request.include_topic_authorized_operations:
        for described in topics:
            if described.name and not described.error_code:
                described.topic_authorized_operations = access.operations(
                    topic_resource(described.name)
                )
    operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        allowed = access.allows(Operation.DESCRIBE, CLUSTER)
        operations = access.operations(CLUSTER) if allowed else 0
    host, port = context.advertised
    return MetadataResponse(
        brokers=[MetadataResponseBroker(broker.node_id, host, port)],
        cluster_id=broker.topics.cluster_id,
        controller_id=broker.node_id,
        cluster_authorized_operations=operations,
        topics=topics,
    )


def failure(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """Every topic asked for says ``error``."""
    return MetadataResponse(
        error_code=error.code,
        topics=[
            MetadataResponseTopic(error_code=error.code, name=t.name or "", topic_id=t.topic_id)
            for t in request.topics or ()
        ],
    )


async def _wanted(
    broker: Broker, wanted: MetadataRequestTopic, context: RequestContext, *, create: bool
) -> MetadataResponseTopic:
    try:
        if wanted.name is None:
            topic = broker.topics.find_id(wanted.topic_id)
            if topic is None:
                raise UnknownTopicId
            context.access.require_topic(Operation.DESCRIBE, topic.name)
        else:
            context.access.require_topic(Operation.DESCRIBE, wanted.name)
            topic = broker.topics.find(wanted.name)
            if topic is None and create and broker.auto_create_topics:
                if not context.access.allows(Operation.CREATE, CLUSTER):
                    context.access.require_topic(Operation.CREATE, wanted.name)
                topic = await broker.topics.auto_create(wanted.name)
            if topic is None:
                broker.topics.check_name(wanted.name)
                raise UnknownTopicOrPartition
    except KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=wanted.name, topic_id=wanted.topic_id
        )
    return _described(broker, topic)


def _described(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    nodes = [broker.node_id]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=broker.topics.is_internal(topic.name),
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=broker.node_id,
                leader_epoch=0,
                replica_nodes=nodes,
                isr_nodes=nodes,
            )
            for index in range(topic.partition_count)
        ],
    )
