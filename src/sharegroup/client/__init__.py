"""Share consumer, producer and admin client on asyncio; ``sharegroup.sync`` has blocking versions.

Names load on first use: a program that needs only the admin client does not load record decoding.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharegroup.client.admin import Admin
    from sharegroup.client.consumer import ShareConsumer
    from sharegroup.client.core.acknowledgements import AckType
    from sharegroup.client.descriptions import OffsetSpec, ResourceType
    from sharegroup.client.errors import (
        BootstrapError,
        BufferExhausted,
        CorruptRecordBatch,
        IllegalState,
        RecordDeserializationError,
        Wakeup,
    )
    from sharegroup.client.produce_delivery import Delivery, RecordMetadata
    from sharegroup.client.producer import Producer
    from sharegroup.client.record import Record, Records
    from sharegroup.client.worker_retry import Backoff, Reject

__all__ = [
    "AckType",
    "Admin",
    "Backoff",
    "BootstrapError",
    "BufferExhausted",
    "CorruptRecordBatch",
    "Delivery",
    "IllegalState",
    "OffsetSpec",
    "Producer",
    "Record",
    "RecordDeserializationError",
    "RecordMetadata",
    "Records",
    "Reject",
    "ResourceType",
    "ShareConsumer",
    "Wakeup",
]

_HOMES = {
    "AckType": "core.acknowledgements",
    "Admin": "admin",
    "Backoff": "worker_retry",
    "BootstrapError": "errors",
    "BufferExhausted": "errors",
    "CorruptRecordBatch": "errors",
    "Delivery": "produce_delivery",
    "IllegalState": "errors",
    "OffsetSpec": "descriptions",
    "Producer": "producer",
    "Record": "record",
    "RecordDeserializationError": "errors",
    "RecordMetadata": "produce_delivery",
    "Records": "record",
    "Reject": "worker_retry",
    "ResourceType": "descriptions",
    "ShareConsumer": "consumer",
    "Wakeup": "errors",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
