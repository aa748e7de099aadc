"""Partitions of which a member gets no records, whatever is in them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.topics import Topics
from sharegroup.model.errors import KafkaError, PolicyViolation, TopicAuthorizationFailed
from sharegroup.model.ids import TopicIdPartition
from sharegroup.share.session import BrokerShareSession

logger = logging.getLogger("sharegroup.broker")


def withheld(
    topics: Topics,
    access: Access,
    session: BrokerShareSession,
    partitions: Sequence[TopicIdPartition],
) -> dict[TopicIdPartition, KafkaError]:
    """Why a member gets nothing of some partitions: the client may not read their topic, or the
    broker refuses topics that can lose records. Logged when a member begins to ask."""
    found: dict[TopicIdPartition, KafkaError] = {}
    if access.restricted:
        for key in partitions:
            name = topics.name_of(key.topic_id)
            if name is not None and not access.admits_topic(Operation.READ, name):
                found[key] = TopicAuthorizationFailed()
    if topics.refused:
        for key in partitions:
            why = topics.refused.get(key.topic_id)
            if why is not None and key not in found:
                found[key] = _refused(topics, session, key, why)
    return found


def _refused(
    topics: Topics, session: BrokerShareSession, key: TopicIdPartition, why: str
) -> KafkaError:
    name = topics.name_of(key.topic_id)
    sentence = f"share groups get no records of {name}: {why}"
    if not session.knows_error(key):
        logger.warning(
            "the group %s asks for %s-%d: %s", session.group_id, name, key.partition, sentence
        )
    return PolicyViolation(sentence)
