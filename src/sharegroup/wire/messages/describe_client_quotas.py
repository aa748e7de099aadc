"""DescribeClientQuotas (API key 48).

Source: Kafka's message definitions DescribeClientQuotasRequest.json,
DescribeClientQuotasResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.limits import QUOTA_PARTS_MAX
from sharegroup.wire.schema import Message, array, boolean, f64, i8, i16, i32, message, string


@message
class ComponentData(Message):
    """A part of the filter: which entities of one type match."""

    entity_type: str = string()
    match_type: int = i8()
    match: str | None = string(nullable="0+")


@message
class DescribeClientQuotasRequest(Message):
    """DescribeClientQuotasRequest, versions 0-1."""

    FLEXIBLE = 1

    components: Sequence[ComponentData] = array(ComponentData, most=QUOTA_PARTS_MAX)
    strict: bool = boolean()


@message
class EntityData(Message):
    """A part of an entity: its type and name."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@message
class ValueData(Message):
    """A quota and its value."""

    key: str = string()
    value: float = f64()


@message
class EntryData(Message):
    """An entity with its quotas."""

    entity: Sequence[EntityData] = array(EntityData)
    values: Sequence[ValueData] = array(ValueData)


@message
class DescribeClientQuotasResponse(Message):
    """DescribeClientQuotasResponse, versions 0-1."""

    FLEXIBLE = 1

    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    entries: Sequence[EntryData] | None = array(EntryData, nullable="0+")
