"""Which topic gets the dead letters of a group, and whether it may (KIP-1191, Kafka class
ShareGroupDLQStateManager, validateDlqTopic).

Kafka gives the records up if the topic is not as it should be. Here they wait until it is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.configs.topic import DEAD_LETTERS_ENABLE, topic_value
from sharegroup.broker.delivery.share_partitions import READ_COMMITTED
from sharegroup.broker.topics import Topic, Topics
from sharegroup.model.errors import InvalidConfig, TopicAlreadyExists

AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
TOPIC_NAME: Final = "errors.deadletterqueue.topic.name"
COPY_RECORD: Final = "errors.deadletterqueue.copy.record.enable"
_NEW_TOPIC: Final = {DEAD_LETTERS_ENABLE: "true", "message.timestamp.type": "CreateTime"}


class Goal(NamedTuple):
    """Where the dead letters of a group go, and how."""

    topic: str
    partitions: int
    batch_bytes_max: int
    copies: bool
    """A letter has the record's key, value and headers."""
    committed: bool
    """The group reads committed."""


async def goal_of(group_id: str, configs: LiveConfigs, topics: Topics) -> Goal:
    """The goal of a group's dead letters. The topic is created if it is missing, and the broker is
    set to.

    Raises:
        InvalidConfig: the group names no topic, or one that may not have dead letters. The message
            says what to do.
        KafkaError: the topic could not be created.
    """
    settings, broker = configs.group(group_id), configs.broker
    name = settings.errors_deadletterqueue_topic_name
    if not name:
        raise InvalidConfig(
            f"the group names no dead-letter topic any more: set its {TOPIC_NAME} again"
        )
    prefix = broker.text(PREFIX)
    if not name.startswith(prefix):
        raise InvalidConfig(
            f"the name of the dead-letter topic {name} does not begin with {prefix!r}: name another"
            f" topic in the group's {TOPIC_NAME}, or alter the broker's {PREFIX}"
        )
    topic = topics.find(name) or await _created(name, configs, topics)
    if not configs.topic_flag(name, DEAD_LETTERS_ENABLE):
        raise InvalidConfig(
            f"the topic {name} takes no dead letters: set its {DEAD_LETTERS_ENABLE} to true"
        )
    return Goal(
        topic=name,
        partitions=topic.partition_count,
        batch_bytes_max=int(str(topic_value("max.message.bytes", configs.of_topic(name), broker))),
        copies=settings.errors_deadletterqueue_copy_record_enable,
        committed=settings.isolation_level == READ_COMMITTED,
    )


async def _created(name: str, configs: LiveConfigs, topics: Topics) -> Topic:
    if not configs.broker.flag(AUTO_CREATE):
        raise InvalidConfig(
            f"the dead-letter topic {name} does not exist: make it (sharegroup topics create "
            f"{name} --config {DEAD_LETTERS_ENABLE}=true), or set the broker's {AUTO_CREATE}"
        )
    try:
        return await topics.create(name, -1, _NEW_TOPIC)
    except TopicAlreadyExists:
        topic = topics.find(name)
        if topic is None:  # somebody has deleted it again
            raise
        return topic
