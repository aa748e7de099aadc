"""ListConfigResources: the resources that have, or can have, configs (KIP-1142; Kafka class
KafkaApis, handleListConfigResources)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.handlers.cluster.describe_configs import BROKER, BROKER_LOGGER, GROUP, TOPIC
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import UnsupportedVersion
from sharegroup.wire.messages.list_config_resources import (
    CLIENT_METRICS,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

SERVED: Final = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
"""The types of resources, in the order of Kafka's answer."""


async def list_config_resources(
    parts: BrokerParts, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """Topics and brokers, and groups with configs of their own. There are no client metrics.

    Raises:
        UnsupportedVersion: the request names a type that has no configs, or that this version of
            the API does not know.
    """
    context.access.require(Operation.DESCRIBE_CONFIGS, CLUSTER)
    allowed: Collection[int] = SERVED if context.version else (CLIENT_METRICS,)
    wanted = set(request.resource_types or allowed)
    if not wanted <= set(allowed):
        raise UnsupportedVersion
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, kind)
            for kind in SERVED
            if kind in wanted
            for name in _names(parts, kind, context)
        ]
    )


def _names(parts: BrokerParts, kind: int, context: RequestContext) -> Iterable[str]:
    if kind == GROUP:
        return parts.configs.configured_groups()
    if kind == TOPIC:
        return sorted(topic.name for topic in parts.topics.all())
    if kind == CLIENT_METRICS:
        return ()
    return sorted(str(one.node_id) for one in parts.leadership.nodes(context.advertised))
