"""Metadata (API key 3).

Source: Kafka's message definitions MetadataRequest.json, MetadataResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sharegroup.wire.schema import Message, array, boolean, i16, i32, message, string, uuid


@message
class MetadataRequestTopic(Message):
    """A topic to describe, by name or by id (from version 10 on)."""

    topic_id: UUID = uuid("10+")
    name: str | None = string(nullable="10+")


@message
class MetadataRequest(Message):
    """MetadataRequest, versions 0-13."""

    FLEXIBLE = 9

    topics: Sequence[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@message
class MetadataResponseBroker(Message):
    """A broker of the cluster, and its address."""

    node_id: int = i32()
    host: str = string()
    port: int = i32()
    rack: str | None = string("1+", default=None, nullable="1+")


@message
class MetadataResponsePartition(Message):
    """A partition, its leader and its replicas."""

    error_code: int = i16()
    partition_index: int = i32()
    leader_id: int = i32()
    leader_epoch: int = i32("7+", default=-1)
    replica_nodes: Sequence[int] = array("i32")
    isr_nodes: Sequence[int] = array("i32")
    offline_replicas: Sequence[int] = array("i32", "5+")


@message
class MetadataResponseTopic(Message):
    """A topic with its partitions, or an error."""

    error_code: int = i16()
    name: str | None = string(nullable="12+")
    topic_id: UUID = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: Sequence[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = i32("8+", default=-2147483648)


@message
class MetadataResponse(Message):
    """MetadataResponse, versions 0-13."""

    FLEXIBLE = 9

    throttle_time_ms: int = i32("3+")
    brokers: Sequence[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", default=None, nullable="2+")
    controller_id: int = i32("1+", default=-1)
    topics: Sequence[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = i32("8-10", default=-2147483648)
    error_code: int = i16("13+")
