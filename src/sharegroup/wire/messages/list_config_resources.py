"""ListConfigResources (API key 74).

Source: Kafka's message definitions ListConfigResourcesRequest.json,
ListConfigResourcesResponse.json. Version 0 was called ListClientMetricsResources (KIP-1142).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.wire.schema import Message, array, i8, i16, i32, message, string

CLIENT_METRICS: Final = 16


@message
class ListConfigResourcesRequest(Message):
    """ListConfigResourcesRequest, versions 0-1."""

    FLEXIBLE = 0

    resource_types: Sequence[int] = array("i8", "1+")


@message
class ConfigResource(Message):
    """A resource that has, or can have, settings."""

    resource_name: str = string()
    resource_type: int = i8("1+", default=CLIENT_METRICS)


@message
class ListConfigResourcesResponse(Message):
    """ListConfigResourcesResponse, versions 0-1."""

    FLEXIBLE = 0

    throttle_time_ms: int = i32()
    error_code: int = i16()
    config_resources: Sequence[ConfigResource] = array(ConfigResource)
