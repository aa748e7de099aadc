"""IncrementalAlterConfigs: set, delete, append to, subtract from settings of topics, the broker,
groups."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from sharegroup.broker.authorization.audit import tell_groups
from sharegroup.broker.authorization.resources import Operation
from sharegroup.broker.configs.broker import BROKER_CONFIGS
from sharegroup.broker.configs.topic import TOPIC_CONFIGS
from sharegroup.broker.handlers.cluster.describe_configs import (
    BROKER,
    GROUP,
    TOPIC,
    check_broker_name,
    owner_of,
)
from sharegroup.broker.handlers.cluster.describe_configs import entries_of as described
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.groups.config import GROUP_CONFIGS
from sharegroup.model import errors
from sharegroup.model.config import ConfigDef, ConfigTable, ConfigType, format_value
from sharegroup.wire.messages import alter_configs
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

NamedConfig = TypeVar("NamedConfig", AlterableConfig, alter_configs.AlterableConfig)

NamedResource = TypeVar("NamedResource", AlterConfigsResource, alter_configs.AlterConfigsResource)

TWICE: Final = errors.InvalidRequest("Each resource must appear at most once.")

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

TABLES: Final[dict[int, ConfigTable]] = {
    TOPIC: TOPIC_CONFIGS,
    BROKER: BROKER_CONFIGS,
    GROUP: GROUP_CONFIGS,
}


async def incremental_alter_configs(
    parts: BrokerParts, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Each resource on its own; a resource changes wholly or not at all."""
    once = named_once(request.resources)
    responses = [
        _alter(parts, r, context, request.validate_only) if once(r) else _response(r, TWICE)
        for r in request.resources
    ]
    await parts.store.settled()
    return IncrementalAlterConfigsResponse(responses=responses)


def _response(
    resource: AlterConfigsResource, error: errors.KafkaError | None
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
    def changed(current: Mapping[str, str]) -> dict[str, str]:
        after = dict(current)
        table = TABLES[resource.resource_type]
        for config in names_of_today(parts, table, resource.configs):
            _apply(parts, resource, config, after)
        return after

    where = (resource.resource_type, resource.resource_name)
    try:
        alter_resource(parts, where, context, changed, validate_only=validate_only)
    except errors.KafkaError as error:
        return _response(resource, error)
    return _response(resource, None)


def named_once(resources: Sequence[NamedResource]) -> Callable[[NamedResource], bool]:
    """Returns a function that tells whether a resource is named once. A resource that is named
    twice is refused, as in Kafka."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return lambda r: named[r.resource_type, r.resource_name] == 1


def alter_resource(
    parts: BrokerParts,
    resource: tuple[int, str],
    context: RequestContext,
    changed: Callable[[Mapping[str, str]], dict[str, str]],
    *,
    validate_only: bool,
) -> None:
    """Replace the settings of a resource by the result of ``changed``.

    Raises:
        KafkaError: the client is not authorised, the resource does not exist, or a setting is
            invalid.
    """
    kind, name = resource
    live = parts.configs
    context.access.require(Operation.ALTER_CONFIGS, owner_of(kind, name))
    if kind == TOPIC:
        if not name:
            raise errors.InvalidRequest("Default topic resources are not allowed.")
        if parts.topics.find(name) is None:
            raise errors.UnknownTopicOrPartition
        live.set_topic(name, changed(live.of_topic(name)), validate_only=validate_only)
    elif kind == GROUP:
        if not name:
            raise errors.InvalidRequest("Default group resources are not allowed.")
        paused = _is_paused(live.of_group(name))
        live.set_group(name, changed(live.of_group(name)), validate_only=validate_only)
        if _is_paused(live.of_group(name)) != paused:
            deed = "resumed" if paused else "paused"
            tell_groups(context.access.principal, context.access.host, deed, f"group {name}")
        parts.waiters.wake_all()  # a limit may have been raised, or the group resumed
    elif kind == BROKER:
        check_broker_name(parts, name)
        after = changed(live.broker.dynamic if name else live.broker.cluster)
        try:
            if name:
                live.set_broker(after, validate_only=validate_only)
            else:
                live.set_cluster(after, validate_only=validate_only)
        except (
            errors.InvalidConfig
        ) as error:  # as in Kafka, whose brokers check before the controller
            raise errors.InvalidRequest(error.message) from error
    else:
        raise errors.InvalidRequest(f"resources of type {kind} have no configs to alter here")


def names_of_today(
    parts: BrokerParts, table: ConfigTable, configs: Sequence[NamedConfig]
) -> list[NamedConfig]:
    """The request's settings under their current names. Serves both AlterConfigs and
    IncrementalAlterConfigs.

    Raises:
        InvalidRequest: a setting occurs twice.
    """
    found = [replace(config, name=_todays(parts, table, config.name)) for config in configs]
    names = [config.name for config in found]
    if len(set(names)) != len(names):
        raise errors.InvalidRequest("Error due to duplicate config keys")
    return found


def _todays(parts: BrokerParts, table: ConfigTable, name: str) -> str:
    """A setting's current name; names from KIP drafts are accepted, with a warning."""
    today = table.today(name)
    if today is None:
        return name
    sentence = f"{name} is a name from a KIP draft; use {today}"
    parts.counters.say(logging.WARNING, "draft_names", sentence)
    return today


def _apply(
    parts: BrokerParts,
    resource: AlterConfigsResource,
    config: AlterableConfig,
    changed: dict[str, str],
) -> None:
    name = config.name
    if config.config_operation == DELETE:
        changed.pop(name, None)
        return
    if config.value is None:
        raise errors.InvalidRequest(f"Null value not supported for : {name}")
    if config.config_operation == SET:
        changed[name] = config.value
        return
    if config.config_operation not in (APPEND, SUBTRACT):
        raise errors.InvalidRequest(f"config operation {config.config_operation} is unknown")
    definition = _list_named(resource.resource_type, name, config.config_operation)
    entries = described(parts, resource.resource_type, resource.resource_name)
    default = format_value(definition.default)
    text = changed.get(name) or next((e.value for e in entries if e.name == name), default) or ""
    items = [item for item in text.split(",") if item]
    named = _items(config.value)
    if config.config_operation == APPEND:
        items += [item for item in named if item not in items]
    else:
        items = [item for item in items if item not in named]
    changed[name] = ",".join(items)


def _is_paused(own: Mapping[str, str]) -> bool:
    """Whether these settings of a group pause it."""
    return own.get("share.paused", "").strip().lower() == "true"


def _list_named(resource_type: int, name: str, operation: int) -> ConfigDef:
    """The definition of the list setting that is to be changed.

    Raises:
        InvalidConfig: there is no list setting of that name. For broker settings the message is
            that of Kafka's broker, for all others that of Kafka's controller.
    """
    definition = TABLES[resource_type].get(name)
    if definition is not None and definition.type is ConfigType.LIST:
        return definition
    word = "append" if operation == APPEND else "subtract"
    if resource_type != BROKER:
        raise errors.InvalidConfig(
            f"Can't {word.upper()} to key {name} because its type is not LIST."
        )
    if definition is None:
        raise errors.InvalidConfig(f"Unknown config name: {name}")
    raise errors.InvalidConfig(f"Config value {word} is not allowed for config key: {name}")


def _items(text: str) -> list[str]:
    """The values of a list as Java splits them: without empty values at the end. An empty text is
    one empty value."""
    items = text.split(",")
    while text and items and not items[-1]:
        items.pop()
    return items
