"""Share consumer, producer and admin client, on asyncio; ``sharegroup.sync`` has the same without
it.

The names load on first use: whoever needs only the admin client does not pay for record decoding.
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
    from sharegroup.client.producer import Producer, RecordMetadata, SentRecord
    from sharegroup.client.record import Record, Records

__all__ = [
    "AckType",
    "Admin",
    "BootstrapError",
    "BufferExhausted",
    "CorruptRecordBatch",
    "IllegalState",
    "OffsetSpec",
    "Producer",
    "Record",
    "RecordDeserializationError",
    "RecordMetadata",
    "Records",
    "ResourceType",
    "SentRecord",
    "ShareConsumer",
    "Wakeup",
]

_HOMES = {
    "AckType": "core.acknowledgements",
    "Admin": "admin",
    "BootstrapError": "errors",
    "BufferExhausted": "errors",
    "CorruptRecordBatch": "errors",
    "IllegalState": "errors",
    "OffsetSpec": "descriptions",
    "Producer": "producer",
    "Record": "record",
    "RecordDeserializationError": "errors",
    "RecordMetadata": "producer",
    "Records": "record",
    "ResourceType": "descriptions",
    "SentRecord": "producer",
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
