"""Queues on Kafka logs, in Python, for Spark.

The public names load on first use (PEP 562), so that ``import sharegroup`` costs nothing and a
Spark executor or a broker never loads what it does not use::

    from sharegroup import Admin, Producer, ShareConsumer
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sharegroup.client import (
        Admin,
        Consumer,
        ConsumerRecord,
        Producer,
        Record,
        Security,
        ShareConsumer,
    )
    from sharegroup.model.errors import (
        AuthenticationFailed,
        ConfigError,
        InvalidRecordState,
        KafkaError,
        MalformedMessage,
        RetriableError,
        SharegroupError,
    )
    from sharegroup.model.ids import TopicPartition

__all__ = [
    "Admin",
    "AuthenticationFailed",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "InvalidRecordState",
    "KafkaError",
    "MalformedMessage",
    "Producer",
    "Record",
    "RetriableError",
    "Security",
    "ShareConsumer",
    "SharegroupError",
    "TopicPartition",
    "__version__",
]

_HOMES = {
    "Admin": "sharegroup.client",
    "AuthenticationFailed": "sharegroup.model.errors",
    "ConfigError": "sharegroup.model.errors",
    "Consumer": "sharegroup.client",
    "ConsumerRecord": "sharegroup.client",
    "InvalidRecordState": "sharegroup.model.errors",
    "KafkaError": "sharegroup.model.errors",
    "MalformedMessage": "sharegroup.model.errors",
    "Producer": "sharegroup.client",
    "Record": "sharegroup.client",
    "RetriableError": "sharegroup.model.errors",
    "Security": "sharegroup.client",
    "ShareConsumer": "sharegroup.client",
    "SharegroupError": "sharegroup.model.errors",
    "TopicPartition": "sharegroup.model.ids",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
