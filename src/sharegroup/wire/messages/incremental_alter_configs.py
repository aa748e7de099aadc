"""IncrementalAlterConfigs (API key 44).

Source: Kafka's message definitions IncrementalAlterConfigsRequest.json,
IncrementalAlterConfigsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i8, i16, i32, message, string


@message
class AlterableConfig(Message):
    """One setting, and how to change it: set, delete, append or subtract."""

    name: str = string()
    config_operation: int = i8()
    value: str | None = string(nullable="0+")


@message
class AlterConfigsResource(Message):
    """A resource and its settings to change."""

    resource_type: int = i8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


@message
class IncrementalAlterConfigsRequest(Message):
    """IncrementalAlterConfigsRequest, versions 0-1."""

    FLEXIBLE = 1

    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@message
class AlterConfigsResourceResponse(Message):
    """Whether one resource was altered."""

    error_code: int = i16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = i8()
    resource_name: str = string()


@message
class IncrementalAlterConfigsResponse(Message):
    """IncrementalAlterConfigsResponse, versions 0-1."""

    FLEXIBLE = 1

    throttle_time_ms: int = i32()
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
