"""DeleteTopics: by name or id; share groups forget the topic with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.network.context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.model.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from sharegroup.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from sharegroup.broker.server import Broker

logger = logging.getLogger("sharegroup.broker")


async def delete_topics(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    """Each topic on its own."""
    return DeleteTopicsResponse(
        responses=[await _delete(broker, wanted, context) for wanted in _wanted(request)]
    )


def failure(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Every topic says ``error``."""
    return DeleteTopicsResponse(responses=[_refused(wanted, error) for wanted in _wanted(request)])


def _wanted(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]


def _refused(wanted: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name,
        topic_id=wanted.topic_id,
        error_code=error.code,
        error_message=error.message,
    )


async def _delete(
    broker: Broker, wanted: DeleteTopicState, context: RequestContext
) -> DeletableTopicResult:
    try:
        if wanted.name is not None:  # before a look-up that reveals whether it exists
            context.access.require_topic(Operation.DESCRIBE, wanted.name)
        topic = _find(broker, wanted)
        context.access.require_topic(Operation.DELETE, topic.name)
        if not broker.configs.broker.flag("delete.topic.enable"):
            raise TopicDeletionDisabled
        if broker.topics.is_internal(topic.name):
            raise InvalidTopic(f"{topic.name} is internal; it cannot be deleted")
        await broker.topics.delete(topic)
    except KafkaError as error:
        return _refused(wanted, error)
    await _forget(broker, topic)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


async def _forget(broker: Broker, topic: Topic) -> None:
    """Delete every group's state of a deleted topic. A failure is only logged: groups forget
    missing topics when they are loaded again."""
    broker.share_partitions.drop_topic(topic.topic_id)
    try:
        await broker.groups.topic_deleted(topic.topic_id)
        await broker.state.forget_missing_topics()  # for groups that other nodes coordinate
    except KafkaError as error:
        logger.warning("%s cannot be removed from share groups yet: %s", topic.name, error)


def _find(broker: Broker, wanted: DeleteTopicState) -> Topic:
    if wanted.name is None:
        topic = broker.topics.find_id(wanted.topic_id)
        if topic is None:
            raise UnknownTopicId
        return topic
    if wanted.topic_id.int:
        raise InvalidRequest("Name a topic by its name or by its id, not by both.")
    topic = broker.topics.find(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    return topic
