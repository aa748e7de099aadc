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
    from sharegroup.client import Admin, Producer, Record, ShareConsumer
    from sharegroup.model.errors import (
        ConfigError,
        InvalidRecordState,
        KafkaError,
        MalformedMessage,
        RetriableError,
        SharegroupError,
    )

__all__ = [
    "Admin",
    "ConfigError",
    "InvalidRecordState",
    "KafkaError",
    "MalformedMessage",
    "Producer",
    "Record",
    "RetriableError",
    "ShareConsumer",
    "SharegroupError",
    "__version__",
]

_HOMES = {
    "Admin": "sharegroup.client",
    "ConfigError": "sharegroup.model.errors",
    "InvalidRecordState": "sharegroup.model.errors",
    "KafkaError": "sharegroup.model.errors",
    "MalformedMessage": "sharegroup.model.errors",
    "Producer": "sharegroup.client",
    "Record": "sharegroup.client",
    "RetriableError": "sharegroup.model.errors",
    "ShareConsumer": "sharegroup.client",
    "SharegroupError": "sharegroup.model.errors",
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
