"""Quotas set and asked for by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.messages import alter_client_quotas as alter
from sharegroup.wire.messages import describe_client_quotas as describe
from tests.broker.by_hand import TIMEOUT_MS

Parts = Sequence[tuple[str, str | None]]


def altered(parts: Parts, **quotas: float | None) -> alter.AlteredEntry:
    """Quotas of an entity by name; None: removed."""
    return alter.AlteredEntry(
        [describe.EntityData(*part) for part in parts],
        [alter.AlteredQuota(name, value or 0.0, value is None) for name, value in quotas.items()],
    )


async def set_quotas(
    connection: Connection, *entries: alter.AlteredEntry, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    """The errors' codes and messages."""
    request = alter.AlterClientQuotasRequest(list(entries), validate_only)
    answer = await connection.send(apis.ALTER_CLIENT_QUOTAS, request, timeout_ms=TIMEOUT_MS)
    return [(entry.error_code, entry.error_message) for entry in answer.entries]


async def set_quota(connection: Connection, parts: Parts, **quotas: float | None) -> None:
    assert await set_quotas(connection, altered(parts, **quotas)) == [(0, None)]


async def quotas_of(
    connection: Connection, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[tuple[Any, ...], dict[str, float]]:
    """What is there, by entity."""
    wanted = [describe.ComponentData(*one) for one in components]
    request = describe.DescribeClientQuotasRequest(wanted, strict)
    answer = await connection.send(apis.DESCRIBE_CLIENT_QUOTAS, request, timeout_ms=TIMEOUT_MS)
    assert answer.error_code == 0, answer
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }
