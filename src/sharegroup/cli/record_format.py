"""How ``consume`` prints a record: its value as a line, JSON, or by a template as in kcat."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from sharegroup.cli.outcome import UsageError
from sharegroup.cli.value_decoder import ValueDecoder
from sharegroup.client.core.json_record import ShownRecord, record_json
from sharegroup.model.printable import printable, printable_json

Render = Callable[[ShownRecord], bytes]
Fields = Mapping[str, tuple[str, Render]]
"""Letter → what it stands for, and how it is printed."""

JSON: Final = "json"
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PARTS: Final = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)


def renderer(
    template: str | None, *, terminal: bool, decoder: ValueDecoder | None = None
) -> Render:
    """The function that prints records: as ``json``, by a template, or else value and line end.

    Args:
        decoder: what values become before they are printed; JSON has them as they are.
        terminal: escape control characters except tabs and line ends, because a terminal would
            interpret them. JSON is always escaped.

    Raises:
        UsageError: the template has an unknown field.
    """
    if template == JSON:
        return _json_line
    if template is None and decoder is None:
        render: Render = _value_line
    else:
        fields = FIELDS if decoder is None else {**FIELDS, "s": ("value", decoder.shown)}
        render = _filled(r"%s\n" if template is None else template, fields)
    return _shown(render) if terminal else render


def _value_line(record: ShownRecord) -> bytes:
    return (record.value or b"") + b"\n"


def _json_line(record: ShownRecord) -> bytes:
    return printable_json(json.dumps(record_json(record), ensure_ascii=False)).encode() + b"\n"


def _shown(render: Render) -> Render:
    def shown(record: ShownRecord) -> bytes:
        text = render(record).decode(errors="backslashreplace")
        return printable(text, keep="\t\n").encode()

    return shown


# --- templates ------------------------------------------------------------------------------------


def _number(value: int | None) -> bytes:
    return b"-" if value is None else str(value).encode()


def _length(value: bytes | None) -> bytes:
    return b"-1" if value is None else str(len(value)).encode()


def _headers(record: ShownRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


FIELDS: Final[Fields] = {
    "t": ("topic", lambda record: record.topic.encode()),
    "p": ("partition", lambda record: _number(record.partition)),
    "o": ("offset", lambda record: _number(record.offset)),
    "k": ("key", lambda record: record.key or b""),
    "s": ("value", lambda record: record.value or b""),
    "h": ("headers, as name=value,…", _headers),
    "T": ("timestamp, ms since 1970", lambda record: _number(record.timestamp)),
    "K": ("bytes of the key, -1: null", lambda record: _length(record.key)),
    "S": ("bytes of the value, -1: null", lambda record: _length(record.value)),
    "d": ("delivery count", lambda record: _number(record.delivery_count)),
}


def _filled(template: str, fields: Fields) -> Render:
    parts = [_part(found, fields) for found in _PARTS.finditer(template)]
    return lambda record: b"".join(
        part if isinstance(part, bytes) else part(record) for part in parts
    )


def _part(found: re.Match[str], fields: Fields) -> bytes | Render:
    field, code, escape, text = found.groups()
    if text is not None:
        return text.encode(errors="surrogateescape")
    if code is not None:
        return bytes([int(code, 16)])
    if escape is not None:
        if escape not in _ESCAPES:
            raise UsageError(f"--format: \\{escape} is not one of \\n \\t \\r \\0 \\xHH \\\\")
        return _ESCAPES[escape]
    if field == "%":
        return b"%"
    if field not in fields:
        known = ", ".join(f"%{letter} {what}" for letter, (what, _) in fields.items())
        raise UsageError(f"--format: %{field} is not a field; the fields are {known}, and %%")
    return fields[field][1]
