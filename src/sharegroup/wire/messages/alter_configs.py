"""AlterConfigs (API key 33).

Source: Kafka's message definitions AlterConfigsRequest.json, AlterConfigsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i8, i16, i32, message, string


@message
class AlterableConfig(Message):
    """One setting with its new value."""

    name: str = string()
    value: str | None = string(nullable="0+")


@message
class AlterConfigsResource(Message):
    """A resource and all settings that it shall have."""

    resource_type: int = i8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


@message
class AlterConfigsRequest(Message):
    """AlterConfigsRequest, versions 0-2."""

    FLEXIBLE = 2

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
class AlterConfigsResponse(Message):
    """AlterConfigsResponse, versions 0-2."""

    FLEXIBLE = 2

    throttle_time_ms: int = i32()
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
