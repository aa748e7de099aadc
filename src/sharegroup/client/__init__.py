"""Share consumer, producer and admin client on asyncio; ``sharegroup.sync`` has blocking versions.

Names load on first use: a program that needs only the admin client does not load record decoding.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from sharegroup.model.printable import EscapedMessages

if TYPE_CHECKING:
    from sharegroup.client.admin.acls import Acl, AclFilter
    from sharegroup.client.admin.admin import Admin
    from sharegroup.client.admin.descriptions import OffsetSpec, ResourceType
    from sharegroup.client.consumer import Consumer
    from sharegroup.client.core.acknowledgements import AckType
    from sharegroup.client.core.committed_offsets import OffsetAndMetadata
    from sharegroup.client.core.key_ranges import KeyRange
    from sharegroup.client.core.record import (
        ConsumerRecord,
        ConsumerRecords,
        Record,
        Records,
    )
    from sharegroup.client.errors import (
        BootstrapError,
        BufferExhausted,
        CorruptRecordBatch,
        HandlerFailed,
        IllegalState,
        NoOffsetForPartition,
        ProducerFenced,
        RecordDeserializationError,
        Wakeup,
    )
    from sharegroup.client.producer.delivery import Delivery, RecordMetadata
    from sharegroup.client.producer.producer import Producer
    from sharegroup.client.security.settings import Security
    from sharegroup.client.share_consumer import ShareConsumer
    from sharegroup.client.worker.key_pool import KeyPool
    from sharegroup.client.worker.retry import Backoff, Reject
    from sharegroup.model.acl import AclOperation, AclPattern, AclResource

__all__ = [
    "AckType",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPattern",
    "AclResource",
    "Admin",
    "Backoff",
    "BootstrapError",
    "BufferExhausted",
    "Consumer",
    "ConsumerRecord",
    "ConsumerRecords",
    "CorruptRecordBatch",
    "Delivery",
    "HandlerFailed",
    "IllegalState",
    "KeyPool",
    "KeyRange",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetSpec",
    "Producer",
    "ProducerFenced",
    "Record",
    "RecordDeserializationError",
    "RecordMetadata",
    "Records",
    "Reject",
    "ResourceType",
    "Security",
    "ShareConsumer",
    "Wakeup",
]

for _name in ("client", "pool", "worker"):
    logging.getLogger(f"sharegroup.{_name}").addFilter(EscapedMessages())

_HOMES = {
    "AckType": "core.acknowledgements",
    "Acl": "admin.acls",
    "AclFilter": "admin.acls",
    "AclOperation": "admin.acls",
    "AclPattern": "admin.acls",
    "AclResource": "admin.acls",
    "Admin": "admin.admin",
    "Backoff": "worker.retry",
    "BootstrapError": "errors",
    "BufferExhausted": "errors",
    "Consumer": "consumer",
    "ConsumerRecord": "core.record",
    "ConsumerRecords": "core.record",
    "CorruptRecordBatch": "errors",
    "Delivery": "producer.delivery",
    "HandlerFailed": "errors",
    "IllegalState": "errors",
    "KeyPool": "worker.key_pool",
    "KeyRange": "core.key_ranges",
    "NoOffsetForPartition": "errors",
    "OffsetAndMetadata": "core.committed_offsets",
    "OffsetSpec": "admin.descriptions",
    "Producer": "producer.producer",
    "ProducerFenced": "errors",
    "Record": "core.record",
    "RecordDeserializationError": "errors",
    "RecordMetadata": "producer.delivery",
    "Records": "core.record",
    "Reject": "worker.retry",
    "ResourceType": "admin.descriptions",
    "Security": "security.settings",
    "ShareConsumer": "share_consumer",
    "Wakeup": "errors",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value  # the next use finds the name, and does not call this function
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
