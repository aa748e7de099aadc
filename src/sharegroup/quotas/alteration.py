"""What may be set as a quota, and what changes (Kafka class ClientQuotaControlManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sharegroup.model.config import INT_MAX
from sharegroup.model.errors import InvalidRequest, PolicyViolation
from sharegroup.model.limits import QUOTAS_MAX
from sharegroup.quotas.connection_rates import canonical
from sharegroup.quotas.entity import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
)

_LONG_MAX: Final = 2**63 - 1

_ANY_NUMBER: Final = None
_CLIENT_KEYS: Final[Mapping[str, tuple[float, str] | None]] = {
    PRODUCER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    CONSUMER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    REQUEST_PERCENTAGE: _ANY_NUMBER,
    CONTROLLER_MUTATION_RATE: _ANY_NUMBER,
}
_IP_KEYS: Final[Mapping[str, tuple[float, str] | None]] = {
    CONNECTION_CREATION_RATE: (INT_MAX, "an INT"),
}
"""By quota, if it takes whole numbers: the largest value, and the name of its type."""

_FRACTION: Final = 1e-6
"""A number with at most this fraction is a whole number, as in Kafka."""


class AlteredQuota(NamedTuple):
    """A quota of an entity changes to a value; None: it is removed."""

    key: str
    value: float | None


class Alteration(NamedTuple):
    """The changes that a request asks for one entity."""

    parts: Sequence[tuple[str, str | None]]
    """Types and names of the entity, as in the request."""
    changes: Sequence[AlteredQuota]


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity in its one form. If a type is named twice, the last name counts, as in Kafka's
    AlterClientQuotasRequest."""
    return tuple(sorted(dict(parts).items()))


def changes_of(
    alteration: Alteration, quotas: Mapping[tuple[Entity, str], float]
) -> tuple[Entity, list[AlteredQuota]]:
    """The entity, and the changes that make a difference.

    Raises:
        InvalidRequest: the entity or a quota is not valid; no quota of the entity may change then.
        PolicyViolation: there are too many quotas.
    """
    entity = entity_of(alteration.parts)
    asked: dict[str, float | None] = {}
    for key, value in alteration.changes:
        if key in asked:
            raise InvalidRequest(f"Ignoring duplicate entity {dict(entity)}: it names {key} twice")
        asked[key] = value
    keys = _keys_for(entity)
    changes = []
    for key, value in asked.items():
        if value is not None:
            _check_value(keys, key, value)
        if quotas.get((entity, key)) != value:
            changes.append(AlteredQuota(key, value))
    added = sum(value is not None and (entity, key) not in quotas for key, value in changes)
    if added and len(quotas) + added > QUOTAS_MAX:
        raise PolicyViolation(f"there are {len(quotas)} quotas; at most {QUOTAS_MAX} are kept")
    return entity, changes


def _keys_for(entity: Entity) -> Mapping[str, tuple[float, str] | None]:
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    of = dict(entity)
    if IP not in of:
        return _CLIENT_KEYS
    if len(of) > 1:
        raise InvalidRequest(
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )
    host = of[IP]
    if host is not None and canonical(host) is None:
        raise InvalidRequest(f"{host} is not a valid IP address; give the address, not a name")
    return _IP_KEYS


def _check_value(keys: Mapping[str, tuple[float, str] | None], key: str, value: float) -> None:
    if key not in keys:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if not value > 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    whole = keys[key]
    if whole is None:
        if value == float("inf"):
            raise InvalidRequest(f"Quota {key} must be a number")
        return
    most, kind = whole
    if value > most:
        raise InvalidRequest(f"Proposed value for {key} is too large for {kind}.")
    if value % 1.0 > _FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")
