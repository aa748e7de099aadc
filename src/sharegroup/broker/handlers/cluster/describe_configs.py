"""DescribeConfigs: topics, the broker, groups; with sources, synonyms and documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation, Resource
from sharegroup.broker.authorization.resources import group as group_resource
from sharegroup.broker.authorization.resources import topic as topic_resource
from sharegroup.broker.configs.described import (
    describe_broker,
    describe_cluster,
    sources_of_group_defaults,
)
from sharegroup.broker.configs.topic import describe_topic_configs
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.groups.config_description import describe_group_configs
from sharegroup.model.config import ConfigEntry, ConfigSource, ConfigType
from sharegroup.model.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

NO_SUBSCRIPTION: Final = tuple(
    ConfigEntry(name=name, value=value, source=ConfigSource.DEFAULT, type=kind, doc=doc)
    for name, value, kind, doc in (
        ("interval.ms", "300000", ConfigType.INT, "How often clients send metrics."),
        ("match", "", ConfigType.LIST, "The clients that are asked for metrics."),
        ("metrics", "", ConfigType.LIST, "The metrics that are asked for; none: nothing is."),
    )
)
"""Kafka's entries for a subscription to clients' metrics that does not exist; here no subscription
can exist."""


async def describe_configs(
    parts: BrokerParts, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    """Each resource on its own."""
    return DescribeConfigsResponse(
        results=[
            _describe(parts, resource, request, context)
            async for resource in sliced(request.resources)
        ]
    )


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error.code, error.message, resource.resource_type, resource.resource_name
    )


def _describe(
    parts: BrokerParts,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: RequestContext,
) -> DescribeConfigsResult:
    try:
        owner = owner_of(resource.resource_type, resource.resource_name)
        context.access.require(Operation.DESCRIBE_CONFIGS, owner)
        entries = entries_of(parts, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        return _refused(resource, error)
    keys = resource.configuration_keys
    if keys:  # an empty list means all settings, as null does (KAFKA-9056)
        entries = [entry for entry in entries if entry.name in keys]
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(entry, request) for entry in entries],
    )


def entries_of(parts: BrokerParts, resource_type: int, name: str) -> Sequence[ConfigEntry]:
    """All settings of a resource.

    Raises:
        UnknownTopicOrPartition, InvalidRequest: there is no such resource.
    """
    live = parts.configs
    if resource_type == TOPIC:
        if parts.topics.find(name) is None:
            raise UnknownTopicOrPartition
        return describe_topic_configs(live.of_topic(name), live.broker)
    if resource_type == BROKER:
        check_broker_name(parts, name)
        return describe_broker(live.broker) if name else describe_cluster(live.broker)
    if resource_type == BROKER_LOGGER:
        return []
    if resource_type == CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return NO_SUBSCRIPTION
    if resource_type == GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        sources = sources_of_group_defaults(live.broker)
        return describe_group_configs(live.of_group(name), live.broker.group_defaults(), sources)
    raise InvalidRequest(f"resources of type {resource_type} have no configs here")


def owner_of(resource_type: int, name: str) -> Resource:
    """The resource on which a client needs rights to see or alter these configs."""
    if resource_type == TOPIC:
        return topic_resource(name)
    return group_resource(name) if resource_type == GROUP else CLUSTER


def check_broker_name(parts: BrokerParts, name: str) -> None:
    """Refuse a broker name that is neither empty (the cluster's default) nor this node's id."""
    if name and name != str(parts.node_id):
        raise InvalidRequest(f"broker {name!r} is unknown; this is broker {parts.node_id}")


def _entry(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(s.name, s.value, s.source) for s in synonyms],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
