"""DescribeClientQuotas: there are no quotas (KIP-546; Kafka class ClientQuotasImage, describe)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidRequest, KafkaError, UnsupportedVersion
from sharegroup.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
DEFAULT: Final = 1


async def describe_client_quotas(
    parts: BrokerParts, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """No entries, whatever a valid filter asks.

    Raises:
        InvalidRequest, UnsupportedVersion: the filter is invalid.
    """
    context.access.require(Operation.DESCRIBE_CONFIGS, CLUSTER)
    _check(request.components)
    return DescribeClientQuotasResponse()


def failure(
    request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    """The error, without entries."""
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.message, entries=None
    )


def _check(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in seen:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        seen.add(kind)
        _check_match(component)
    if IP in seen and len(seen) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )


def _check_match(component: ComponentData) -> None:
    match component.match_type:
        case 0:
            if component.match is None:
                raise InvalidRequest(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null."
                )
        case 1 | 2:
            if component.match is not None:
                name = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
                raise InvalidRequest(
                    f"Request specified MATCH_TYPE_{name}, but also specified a match string."
                )
        case _:
            raise InvalidRequest(f"Unknown match type {component.match_type}")
