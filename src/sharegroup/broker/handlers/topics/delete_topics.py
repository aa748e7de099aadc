"""DeleteTopics: delete topics by name or id; share groups then forget the topic too."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.topics import Topic
from sharegroup.model import errors
from sharegroup.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

NAME_OF_AN_ID: Final = "The provided topic name maps to an ID that was already supplied."

logger = logging.getLogger("sharegroup.broker")


async def delete_topics(
    parts: BrokerParts, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    """Each topic on its own. As in Kafka, a topic named twice is refused, with one result."""
    named = Counter((wanted.name, wanted.topic_id) for wanted in _wanted(request))
    refused = [
        _refused(
            DeleteTopicState(name, topic_id), errors.InvalidRequest(f"Duplicate topic {which}.")
        )
        for (name, topic_id), times in named.items()
        for which in ["id" if name is None else "name"]
        if times > 1
    ]
    once = [wanted for wanted in _wanted(request) if named[wanted.name, wanted.topic_id] == 1]
    both = _by_name_and_id(parts, once, context)
    refused += [_refused(wanted, errors.InvalidRequest(NAME_OF_AN_ID)) for wanted in both.values()]
    responses = [
        await _delete(parts, wanted, context)
        for wanted in once
        if (parts.topics.name_of(wanted.topic_id) or wanted.name) not in both
    ]
    return DeleteTopicsResponse(responses=refused + responses)


def failure(request: DeleteTopicsRequest, error: errors.KafkaError) -> DeleteTopicsResponse:
    """Every topic says ``error``."""
    return DeleteTopicsResponse(responses=[_refused(wanted, error) for wanted in _wanted(request)])


def _wanted(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]


def _by_name_and_id(
    parts: BrokerParts, once: Sequence[DeleteTopicState], context: RequestContext
) -> dict[str, DeleteTopicState]:
    """The topics that the request names twice: once by name, and once by id."""
    ids = {parts.topics.name_of(wanted.topic_id): wanted for wanted in once if wanted.name is None}
    return {
        wanted.name: replace(wanted, topic_id=ids[wanted.name].topic_id)
        for wanted in once
        if wanted.name is not None
        and wanted.name in ids
        and context.access.allows_topic(Operation.DESCRIBE, wanted.name)
    }


def _refused(wanted: DeleteTopicState, error: errors.KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name,
        topic_id=wanted.topic_id,
        error_code=error.code,
        error_message=error.message,
    )


async def _delete(
    parts: BrokerParts, wanted: DeleteTopicState, context: RequestContext
) -> DeletableTopicResult:
    try:
        every = context.access.allows(Operation.DELETE, CLUSTER)  # by an ACL of ALL, as in Kafka
        if wanted.name is not None and not every:  # before a look-up reveals whether it exists
            context.access.require_topic(Operation.DESCRIBE, wanted.name)
        topic = _find(parts, wanted)
        if not every:
            if context.access.allows_topic(Operation.DESCRIBE, topic.name):
                wanted = replace(wanted, name=topic.name)
            context.access.require_topic(Operation.DELETE, topic.name)
        if not parts.configs.broker.flag("delete.topic.enable"):
            raise errors.TopicDeletionDisabled
        if parts.topics.is_internal(topic.name):
            raise errors.InvalidTopic(f"{topic.name} is internal; it cannot be deleted")
        if context.mutations is not None:
            context.mutations.charge(topic.partition_count)
        try:
            await parts.topics.delete(topic)
        except errors.UnknownTopicOrPartition:  # somebody else has just deleted it
            _find(parts, replace(wanted, name=None) if wanted.topic_id.int else wanted)
            raise
    except errors.KafkaError as error:
        return _refused(wanted, error)
    await _forget(parts, topic)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


async def _forget(parts: BrokerParts, topic: Topic) -> None:
    """Delete every group's state of a deleted topic. A failure is only logged: groups forget
    missing topics when they are loaded again."""
    for forget in (  # each has a log of its own, which may be out of service
        partial(parts.groups.topic_deleted, topic.topic_id),
        partial(parts.offsets.topic_deleted, topic.name, topic.topic_id),
        parts.state.forget_missing_topics,  # for groups that other nodes coordinate
    ):
        try:
            await forget()
        except errors.KafkaError as error:
            logger.warning("%s cannot be removed from groups yet: %s", topic.name, error)


def _find(parts: BrokerParts, wanted: DeleteTopicState) -> Topic:
    if wanted.name is None:
        topic = parts.topics.find_id(wanted.topic_id)
        if topic is None:
            raise errors.UnknownTopicId
        return topic
    if wanted.topic_id.int:
        raise errors.InvalidRequest("Name a topic by its name or by its id, not by both.")
    topic = parts.topics.find(wanted.name)
    if topic is None:
        raise errors.UnknownTopicOrPartition
    return topic
