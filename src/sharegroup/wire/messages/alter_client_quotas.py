"""AlterClientQuotas (API key 49).

Source: Kafka's message definitions AlterClientQuotasRequest.json, AlterClientQuotasResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.limits import QUOTA_ALTERATIONS_MAX, QUOTA_PARTS_MAX
from sharegroup.wire.messages.describe_client_quotas import EntityData
from sharegroup.wire.schema import Message, array, boolean, f64, i16, i32, message, string


@message
class AlteredQuota(Message):
    """A quota with its new value, or to be removed. Kafka calls it OpData."""

    key: str = string()
    value: float = f64()
    remove: bool = boolean()


@message
class AlteredEntry(Message):
    """An entity and its quotas to alter. Kafka calls it EntryData."""

    entity: Sequence[EntityData] = array(EntityData, most=QUOTA_PARTS_MAX)
    ops: Sequence[AlteredQuota] = array(AlteredQuota, most=QUOTA_PARTS_MAX)


@message
class AlterClientQuotasRequest(Message):
    """AlterClientQuotasRequest, versions 0-1."""

    FLEXIBLE = 1

    entries: Sequence[AlteredEntry] = array(AlteredEntry, most=QUOTA_ALTERATIONS_MAX)
    validate_only: bool = boolean()


@message
class AlteredEntryResult(Message):
    """Whether the quotas of one entity were altered."""

    error_code: int = i16()
    error_message: str | None = string(default=None, nullable="0+")
    entity: Sequence[EntityData] = array(EntityData)


@message
class AlterClientQuotasResponse(Message):
    """AlterClientQuotasResponse, versions 0-1."""

    FLEXIBLE = 1

    throttle_time_ms: int = i32()
    entries: Sequence[AlteredEntryResult] = array(AlteredEntryResult)
