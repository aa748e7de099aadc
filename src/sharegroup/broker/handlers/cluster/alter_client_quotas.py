"""AlterClientQuotas: quotas of users, client ids and addresses (KIP-546; Kafka class
ClientQuotaControlManager)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import InvalidRequest, KafkaError
from sharegroup.quotas.alteration import Alteration, AlteredQuota, changes_of, entity_of
from sharegroup.quotas.entity import Entity
from sharegroup.wire.internal.security import QuotaChange
from sharegroup.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntry,
    AlteredEntryResult,
)
from sharegroup.wire.messages.describe_client_quotas import EntityData


async def alter_client_quotas(
    parts: BrokerParts, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    """Each entity on its own; an entity changes wholly or not at all. An entity that is named twice
    does not change. (Kafka makes the entity's first change, and answers the same error.)"""
    context.access.require(Operation.ALTER_CONFIGS, CLUSTER)

    def decide(
        machine: SecurityMachine,
    ) -> tuple[list[AlteredEntryResult], Sequence[QuotaChange]]:
        results, records = _decided(machine, request)
        return results, () if request.validate_only else records

    return AlterClientQuotasResponse(entries=await parts.security.change(decide))


def failure(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """Every entity says ``error``."""
    return AlterClientQuotasResponse(
        entries=[
            AlteredEntryResult(error.code, error.message, entry.entity) for entry in request.entries
        ]
    )


def _decided(
    machine: SecurityMachine, request: AlterClientQuotasRequest
) -> tuple[list[AlteredEntryResult], list[QuotaChange]]:
    asked = [_alteration(entry) for entry in request.entries]
    times = Counter(entity_of(alteration.parts) for alteration in asked)
    quotas = dict(machine.quotas)
    results: dict[Entity, KafkaError | None] = {}
    records = []
    for alteration in asked:
        entity = entity_of(alteration.parts)
        try:
            if times[entity] > 1:
                raise InvalidRequest(f"Ignoring duplicate entity {dict(entity)}")
            _, changes = changes_of(alteration, quotas)
        except KafkaError as error:
            results[entity] = error
            continue
        results[entity] = None
        for key, value in changes:
            records.append(QuotaChange(entity, key, value))
            if value is None:
                quotas.pop((entity, key), None)
            else:
                quotas[entity, key] = value
    return [_result(entity, error) for entity, error in results.items()], records


def _alteration(entry: AlteredEntry) -> Alteration:
    return Alteration(
        [(part.entity_type, part.entity_name) for part in entry.entity],
        [AlteredQuota(change.key, None if change.remove else change.value) for change in entry.ops],
    )


def _result(entity: Entity, error: KafkaError | None) -> AlteredEntryResult:
    return AlteredEntryResult(
        error.code if error else 0,
        error.message if error else None,
        [EntityData(*part) for part in entity],
    )
