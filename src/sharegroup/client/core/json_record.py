"""A record as an object of JSON::

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1234, "delivery_count": 1,
     "key": "k", "value": {"base64": "/wA="}, "headers": [["name", "text"]]}

Key, value and the values of headers are text, null, or {"base64": …} if they are not UTF-8.
"""

from __future__ import annotations

import base64
from typing import Any, Protocol

from sharegroup.client.core.record import Headers


class ShownRecord(Protocol):
    """A record of a share group; or a record read with ``--peek``, which has no delivery count."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def delivery_count(self) -> int | None: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> Headers: ...


def record_json(record: ShownRecord) -> dict[str, object]:
    """A record as ``consume --format json`` prints it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "delivery_count": record.delivery_count,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _text(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
