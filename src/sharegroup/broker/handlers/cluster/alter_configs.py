"""AlterConfigs: replace all settings of topics, the broker, groups. A setting that a request does
not name goes back to its default (Kafka method ConfigurationControlManager.legacyAlterConfigs).

Deprecated since Kafka 2.3 in favour of IncrementalAlterConfigs, but some clients (KafkaJS) have
nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.broker.handlers.cluster.incremental_alter_configs import (
    TABLES,
    TWICE,
    alter_resource,
    named_once,
    names_of_today,
)
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidRequest, KafkaError
from sharegroup.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def alter_configs(
    parts: BrokerParts, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    """Each resource on its own; a resource changes wholly or not at all."""
    once = named_once(request.resources)
    responses = [
        _alter(parts, r, context, request.validate_only) if once(r) else _response(r, TWICE)
        for r in request.resources
    ]
    await parts.store.settled()
    return AlterConfigsResponse(responses=responses)


def _response(
    resource: AlterConfigsResource, error: KafkaError | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error.code if error else 0,
        error.message if error else None,
        resource.resource_type,
        resource.resource_name,
    )


def _alter(
    parts: BrokerParts, resource: AlterConfigsResource, context: RequestContext, validate_only: bool
) -> AlterConfigsResourceResponse:
    def replaced(_current: Mapping[str, str]) -> dict[str, str]:
        configs = names_of_today(parts, TABLES[resource.resource_type], resource.configs)
        changed: dict[str, str] = {}
        for config in configs:
            if config.value is None:
                raise InvalidRequest(f"Null value not supported for : {config.name}")
            changed[config.name] = config.value
        return changed

    where = (resource.resource_type, resource.resource_name)
    try:
        alter_resource(parts, where, context, replaced, validate_only=validate_only)
    except KafkaError as error:
        return _response(resource, error)
    return _response(resource, None)
