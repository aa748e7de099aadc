"""DescribeConfigs (API key 32).

Source: Kafka's message definitions DescribeConfigsRequest.json, DescribeConfigsResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.schema import Message, array, boolean, i8, i16, i32, message, string


@message
class DescribeConfigsResource(Message):
    """A resource, and which of its settings to describe; null: all."""

    resource_type: int = i8()
    resource_name: str = string()
    configuration_keys: Sequence[str] | None = array("string", nullable="0+")


@message
class DescribeConfigsRequest(Message):
    """DescribeConfigsRequest, versions 1-4."""

    FLEXIBLE = 4

    resources: Sequence[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


@message
class DescribeConfigsSynonym(Message):
    """One of the places that a setting's value can come from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = i8()


@message
class DescribeConfigsResourceResult(Message):
    """A setting, its value, and where the value comes from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = i8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: Sequence[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = i8("3+")
    documentation: str | None = string("3+", nullable="3+")


@message
class DescribeConfigsResult(Message):
    """The settings of one resource, or an error."""

    error_code: int = i16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = i8()
    resource_name: str = string()
    configs: Sequence[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message
class DescribeConfigsResponse(Message):
    """DescribeConfigsResponse, versions 1-4."""

    FLEXIBLE = 4

    throttle_time_ms: int = i32()
    results: Sequence[DescribeConfigsResult] = array(DescribeConfigsResult)
