"""Whom a quota is for (Kafka class ClientQuotaEntity)."""

from __future__ import annotations

from typing import Final, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of type (:data:`USER`, :data:`CLIENT_ID`, :data:`IP`) and name, sorted by type. The name
None stands for all users, client ids or addresses without a quota of their own."""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
