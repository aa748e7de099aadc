"""``Admin``'s requests about quotas of clients: one attempt each; errors are raised (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sharegroup.client.admin.descriptions import ClientQuota
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import error_from_code
from sharegroup.quotas.selection import DEFAULT, EXACT
from sharegroup.wire import apis
from sharegroup.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntry,
    AlteredQuota,
)
from sharegroup.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)


async def describe_client_quotas(
    cluster: Cluster, entity: Mapping[str, str | None] | None
) -> list[ClientQuota]:
    """DescribeClientQuotas of just this entity; None: of all."""
    components = [
        ComponentData(kind, DEFAULT if name is None else EXACT, name)
        for kind, name in (entity or {}).items()
    ]
    request = DescribeClientQuotasRequest(components, entity is not None)
    answer = await cluster.send_to_any(apis.DESCRIBE_CLIENT_QUOTAS, request)
    _check(answer)
    return [
        ClientQuota(
            entity={part.entity_type: part.entity_name for part in entry.entity},
            quotas={value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or ()
    ]


async def alter_client_quotas(
    cluster: Cluster, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
) -> None:
    """AlterClientQuotas of one entity; the value None removes a quota."""
    parts = [EntityData(*part) for part in entity.items()]
    changes = [AlteredQuota(key, value or 0.0, value is None) for key, value in quotas.items()]
    request = AlterClientQuotasRequest([AlteredEntry(parts, changes)])
    answer = await cluster.send_to_any(apis.ALTER_CLIENT_QUOTAS, request)
    for entry in answer.entries:
        _check(entry)


def _check(answer: Any) -> None:
    if answer.error_code:
        raise error_from_code(answer.error_code, answer.error_message)
