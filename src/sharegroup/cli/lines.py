"""Input cut into lines and lines into records, and records as JSON. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from sharegroup.cli.outcome import UsageError
from sharegroup.client.record import Record

LINE_BYTES_MAX: Final = 64 * 1024 * 1024  # a file without line ends must not fill the memory


class KeyedValue(NamedTuple):
    """What one line of input becomes."""

    key: bytes | None
    value: bytes


Parse = Callable[[int, bytes], KeyedValue | None]


class LineSplitter:
    """Chunks of bytes in, whole lines out, without their ends (``\\n`` or ``\\r\\n``)."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes.

        Raises:
            UsageError: a line is longer than LINE_BYTES_MAX.
        """
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._rest += tail
            if len(self._rest) > LINE_BYTES_MAX:
                raise UsageError(f"a line of the input is longer than {LINE_BYTES_MAX} bytes")
            return []
        lines = (bytes(self._rest) + head).split(b"\n")
        self._rest = bytearray(tail)
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """The last line, where the input did not end with a line end."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []


def parser(key_field: str | None, key_separator: str | None) -> Parse:
    """How to make a record of a line, from ``--key`` and ``--key-separator``.

    The function it returns takes the line's number (from 1) and its bytes, gives None for a blank
    line of JSON, and raises UsageError for a line that does not have what the options promise.
    """
    if key_field and key_separator:
        raise UsageError("--key and --key-separator exclude each other")
    if key_field:
        return lambda number, line: _keyed_by_field(number, line, key_field)
    if key_separator:
        separator = key_separator.encode()
        return lambda number, line: _keyed_by_separator(number, line, separator)
    return lambda _number, line: KeyedValue(None, line)


def _keyed_by_field(number: int, line: bytes, field: str) -> KeyedValue | None:
    if not line.strip():
        return None
    try:
        document = json.loads(line)
    except ValueError as error:
        raise UsageError(f"line {number} is not JSON: {error}") from None
    if not isinstance(document, dict) or field not in document:
        raise UsageError(f"line {number} has no field {field!r}")
    return KeyedValue(_key_bytes(document[field]), line)


def _key_bytes(value: object) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode()


def _keyed_by_separator(number: int, line: bytes, separator: bytes) -> KeyedValue:
    key, found, value = line.partition(separator)
    if not found:
        raise UsageError(f"line {number} has no {separator.decode()!r} after a key")
    return KeyedValue(key, value)


def record_json(record: Record) -> dict[str, object]:
    """A record as ``consume --json`` prints it; bytes that are not UTF-8 are {"base64": …}."""
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
        import base64

        return {"base64": base64.b64encode(value).decode()}
