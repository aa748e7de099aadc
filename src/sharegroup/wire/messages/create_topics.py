"""CreateTopics (API key 19).

Source: Kafka's message definitions CreateTopicsRequest.json, CreateTopicsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, boolean, i8, i16, i32, message, string, uuid


@message
class CreatableReplicaAssignment(Message):
    """A partition of a new topic, and the brokers that it is assigned to."""

    partition_index: int = i32()
    broker_ids: Sequence[int] = array("i32")


@message
class CreatableTopicConfig(Message):
    """A setting of a new topic."""

    name: str = string()
    value: str | None = string(nullable="0+")


@message
class CreatableTopic(Message):
    """A topic to create."""

    name: str = string()
    num_partitions: int = i32()
    replication_factor: int = i16()
    assignments: Sequence[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: Sequence[CreatableTopicConfig] = array(CreatableTopicConfig)


@message
class CreateTopicsRequest(Message):
    """CreateTopicsRequest, versions 2-7."""

    FLEXIBLE = 5

    topics: Sequence[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = i32(default=60000)
    validate_only: bool = boolean()


@message
class CreatableTopicConfigs(Message):
    """A setting of a created topic, and where its value comes from."""

    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = i8("5+", default=-1)
    is_sensitive: bool = boolean("5+")


@message
class CreatableTopicResult(Message):
    """Whether one topic was created, and what it is like."""

    name: str = string()
    topic_id: UUID = uuid("7+")
    error_code: int = i16()
    error_message: str | None = string(nullable="0+")
    topic_config_error_code: int = i16("5+", tag=0)
    num_partitions: int = i32("5+", default=-1)
    replication_factor: int = i16("5+", default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+"
    )


@message
class CreateTopicsResponse(Message):
    """CreateTopicsResponse, versions 2-7."""

    FLEXIBLE = 5

    throttle_time_ms: int = i32()
    topics: Sequence[CreatableTopicResult] = array(CreatableTopicResult)
