"""Lines of JSON as new records: ``consume --format json | produce --format json``. The form is
that of :mod:`sharegroup.client.core.json_record`."""

from __future__ import annotations

import base64
import json
from typing import Final

from sharegroup.cli.input_records import NewRecord
from sharegroup.cli.outcome import UsageError
from sharegroup.client.core.record import Headers

KEPT: Final = ("key", "value", "headers", "partition", "timestamp")
"""The fields that a produced record takes over."""
PASSED_OVER: Final = ("topic", "offset", "delivery_count")
"""The fields that the broker assigns; they are ignored."""
BYTES: Final = 'text, null, or {"base64": "…"}'
_TIMESTAMP_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


def parse_record_json(number: int, line: bytes) -> NewRecord | None:
    """The record in line ``number`` of the input; None for a blank line. ``value`` is required; a
    timestamp of -1 means none.

    Raises:
        UsageError: the JSON is invalid; the message names the line and the field.
    """
    if not line.strip():
        return None
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} is not JSON: {error}") from None
    if not isinstance(document, dict) or "value" not in document:
        raise UsageError(f"line {number} is not a record: it has no field 'value'")
    for name in document:
        if name not in KEPT and name not in PASSED_OVER:
            raise UsageError(f"line {number}: a record has no field {name!r}")
    fields = _Line(number)
    timestamp = fields.whole_number("timestamp", document.get("timestamp"), -1, _TIMESTAMP_MAX)
    return NewRecord(
        key=fields.bytes_of("key", document.get("key")),
        value=fields.bytes_of("value", document["value"]),
        headers=fields.headers_of(document.get("headers")),
        partition=fields.whole_number("partition", document.get("partition"), 0, _PARTITION_MAX),
        timestamp_ms=None if timestamp == -1 else timestamp,
        document=document,
    )


class _Line:
    """Reads the fields of one line of input; its errors name the line."""

    def __init__(self, number: int) -> None:
        self._number = number

    def bytes_of(self, name: str, value: object) -> bytes | None:
        if value is None:
            return None
        try:
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, dict) and set(value) == {"base64"}:
                return base64.b64decode(value["base64"], validate=True)
        except (ValueError, TypeError) as error:  # a lone surrogate, or invalid base64
            raise UsageError(f"line {self._number}: {name} cannot be read: {error}") from None
        raise UsageError(f"line {self._number}: {name} must be {BYTES}")

    def whole_number(self, name: str, value: object, least: int, most: int) -> int | None:
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise UsageError(f"line {self._number}: {name} must be an integer from {least} on, or null")

    def headers_of(self, value: object) -> Headers:
        if value is None:
            return []
        if not isinstance(value, list) or not all(map(_is_header, value)):
            raise UsageError(f'line {self._number}: headers must be a list of ["name", value]')
        for name, _ in value:
            self.bytes_of("a header's name", name)
        return [(name, self.bytes_of("a header", content)) for name, content in value]


def _is_header(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
