"""Splits input into lines, and turns lines into records. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sharegroup.cli.outcome import UsageError
from sharegroup.client.core.record import Headers
from sharegroup.model.limits import INPUT_LINE_BYTES_MAX
from sharegroup.model.printable import encodable
from sharegroup.records.message_ids import MESSAGE_ID


class NewRecord(NamedTuple):
    """A record made of a line of input."""

    key: bytes | None
    value: bytes | None
    headers: Headers = []  # noqa: RUF012  nobody adds to it
    partition: int | None = None
    """None: chosen by the key; any partition without a key."""
    timestamp_ms: int | None = None
    """None: now."""
    document: object = None
    """The decoded line, if it was JSON with all fields of a record."""


Parse = Callable[[int, bytes], NewRecord | None]
"""(line number from 1, its bytes) → a record, or None if no record ends with this line."""


class LineSplitter:
    """Splits chunks of bytes into lines, without their line ends (``\\n`` or ``\\r\\n``)."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes.

        Raises:
            UsageError: a line is longer than INPUT_LINE_BYTES_MAX.
        """
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._rest += tail
            if len(self._rest) > INPUT_LINE_BYTES_MAX:
                raise UsageError(f"a line of the input is longer than {INPUT_LINE_BYTES_MAX} bytes")
            return []
        lines = (bytes(self._rest) + head).split(b"\n")
        self._rest = bytearray(tail)
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """The last line, if the input did not end with a line end."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []


def parser(key_field: str | None, key_separator: str | None) -> Parse:
    """The function that makes a record of a line, for ``--key`` and ``--key-separator``.

    It returns None for a blank line of JSON, and raises UsageError for a line without the key field
    or the separator.
    """
    if key_field and key_separator:
        raise UsageError("--key and --key-separator exclude each other")
    if key_field:
        return lambda number, line: _keyed_by_field(number, line, key_field)
    if key_separator:
        separator = key_separator.encode(errors="surrogateescape")
        return lambda number, line: _keyed_by_separator(number, line, separator)
    return lambda _number, line: NewRecord(None, line)


def with_message_id(parse: Parse, field: str) -> Parse:
    """``parse``, and the message id from a field of the line, which is a JSON object. A line
    without the field, or where it is null, raises UsageError: it would not be told apart."""

    def parsed(number: int, line: bytes) -> NewRecord | None:
        if not line.strip():
            return None
        record = parse(number, line)
        found = _field_of(number, line, field)
        if record is None:
            return None
        if not found:
            raise UsageError(f"line {number} has no message id: its field {field!r} is empty")
        return record._replace(headers=[*record.headers, (MESSAGE_ID, found)])

    return parsed


def parse_headers(pairs: Iterable[str]) -> Headers:
    """Parse ``["name=value", …]`` of ``--header``; the value of ``name`` alone is null.

    Raises:
        UsageError: a header has no name, or one that is no UTF-8 text.
    """
    found: Headers = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise UsageError(f"--header {pair!r} is not NAME=VALUE")
        if encodable(name) != name:
            raise UsageError(f"--header: the name {name!r} is no UTF-8 text")
        found.append((name, value.encode(errors="surrogateescape") if equals else None))
    return found


def _keyed_by_field(number: int, line: bytes, field: str) -> NewRecord | None:
    if not line.strip():
        return None
    return NewRecord(_field_of(number, line, field), line)


def _field_of(number: int, line: bytes, field: str) -> bytes | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} is not JSON: {error}") from None
    if not isinstance(document, dict) or field not in document:
        raise UsageError(f"line {number} has no field {field!r}")
    try:
        return _key_bytes(document[field])
    except UnicodeEncodeError:  # a half of a pair
        found = document[field]
        raise UsageError(f"line {number}: {field!r} is {found!r}, no UTF-8 text") from None


def _key_bytes(value: object) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode()


def _keyed_by_separator(number: int, line: bytes, separator: bytes) -> NewRecord:
    key, found, value = line.partition(separator)
    if not found:
        raise UsageError(f"line {number} has no {separator.decode(errors='replace')!r} after a key")
    return NewRecord(key, value)
