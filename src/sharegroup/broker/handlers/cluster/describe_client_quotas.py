"""DescribeClientQuotas: the quotas that a filter matches (KIP-546; Kafka class ClientQuotasImage,
describe)."""

from __future__ import annotations

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.broker.time_slices import sliced
from sharegroup.model.errors import KafkaError
from sharegroup.quotas.selection import Component, Selection
from sharegroup.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


async def describe_client_quotas(
    parts: BrokerParts, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """The quotas that the filter matches, by entity.

    Raises:
        InvalidRequest, UnsupportedVersion: the filter is invalid.
    """
    context.access.require(Operation.DESCRIBE_CONFIGS, CLUSTER)
    selection = Selection(
        (Component(each.entity_type, each.match_type, each.match) for each in request.components),
        strict=request.strict,
    )
    found = selection.select(parts.views.quotas())
    entries = [
        EntryData([EntityData(*part) for part in entity], [ValueData(*value) for value in values])
        async for entity, values in sliced(found.items())
    ]
    return DescribeClientQuotasResponse(error_message="", entries=entries)  # "" as Kafka says it


def failure(
    request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    """The error, without entries."""
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.message, entries=None
    )
