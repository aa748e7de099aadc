"""The admin client's calls about quotas of clients (KIP-546)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

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

T = TypeVar("T")


class QuotaCalls(ABC):
    """See the module. The admin client sets the attributes.

    An entity is a mapping of types (``user``, ``client-id``, ``ip``) to names; the name None stands
    for all clients that have no quota of their own.
    """

    _cluster: Cluster

    @abstractmethod
    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry until success, an error that is not transient, or the time-out."""

    async def describe_client_quotas(
        self, entity: Mapping[str, str | None] | None = None
    ) -> list[ClientQuota]:
        """The quotas of just this entity, or all quotas."""
        components = [
            ComponentData(kind, DEFAULT if name is None else EXACT, name)
            for kind, name in (entity or {}).items()
        ]
        request = DescribeClientQuotasRequest(components, entity is not None)

        async def attempt() -> list[ClientQuota]:
            answer = await self._cluster.send_to_any(apis.DESCRIBE_CLIENT_QUOTAS, request)
            _check(answer)
            return [
                ClientQuota(
                    entity={part.entity_type: part.entity_name for part in entry.entity},
                    quotas={value.key: value.value for value in entry.values},
                )
                for entry in answer.entries or ()
            ]

        return await self._trying(attempt)

    async def alter_client_quotas(
        self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
    ) -> None:
        """Set quotas of an entity by name, such as ``producer_byte_rate``; None removes one.

        Raises:
            InvalidRequest: the entity, a name or a value is not valid.
        """
        parts = [EntityData(*part) for part in entity.items()]
        changes = [AlteredQuota(key, value or 0.0, value is None) for key, value in quotas.items()]
        request = AlterClientQuotasRequest([AlteredEntry(parts, changes)])

        async def attempt() -> None:
            answer = await self._cluster.send_to_any(apis.ALTER_CLIENT_QUOTAS, request)
            for entry in answer.entries:
                _check(entry)

        await self._trying(attempt)


def _check(answer: Any) -> None:
    if answer.error_code:
        raise error_from_code(answer.error_code, answer.error_message)
