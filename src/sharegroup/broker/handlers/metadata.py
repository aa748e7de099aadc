"""Metadata: this node, and topics with their partitions, by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharegroup.broker.context import RequestContext
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
    """All topics (null; at v0 an empty list), none (an empty list), or those asked for."""
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if everything:
        topics = [_described(broker, topic) for topic in broker.topics.all()]
    else:
        topics = [
            await _wanted(broker, wanted, request.allow_auto_topic_creation)
            for wanted in request.topics or ()
        ]
    host, port = context.advertised
    return MetadataResponse(
        brokers=[MetadataResponseBroker(broker.node_id, host, port)],
        cluster_id=broker.topics.cluster_id,
        controller_id=broker.node_id,
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
    broker: Broker, wanted: MetadataRequestTopic, create: bool
) -> MetadataResponseTopic:
    try:
        if wanted.name is None:
            topic = broker.topics.find_id(wanted.topic_id)
            if topic is None:
                raise UnknownTopicId
        else:
            topic = broker.topics.find(wanted.name)
            if topic is None and create and broker.auto_create_topics:
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
