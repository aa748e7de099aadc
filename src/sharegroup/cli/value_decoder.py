"""A user's decoder of values, by its name: ``MODULE:FUNCTION``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sharegroup.cli.handler_import import import_handler
from sharegroup.cli.outcome import complain
from sharegroup.client.core.json_record import ShownRecord

Decode = Callable[[bytes], str]


def decoder_named(name: str) -> Decode:
    """What the function returns for the bytes of a value, as text: text and bytes as they are,
    anything else as JSON. It raises what the function raises.

    Raises:
        UsageError: there is no such function, or it cannot be imported.
    """
    found = import_handler(name, "decoder", "value")

    def decode(value: bytes) -> str:
        return _text(found(value))

    return decode


def _text(found: Any) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, bytes | bytearray):
        return found.decode()
    return json.dumps(found, ensure_ascii=False, default=str)


class ValueDecoder:
    """Prints decoded values. One that cannot be decoded is printed as it is; the first is said."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._decode = decoder_named(name)
        self._said = False

    def shown(self, record: ShownRecord) -> bytes:
        """The decoded value; nothing for null."""
        if record.value is None:
            return b""
        try:
            return self._decode(record.value).encode()
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            if not self._said:
                self._said = True
                complain(
                    f"{self._name} cannot decode {record.topic}:{record.partition}@{record.offset} "
                    f"({type(error).__name__}: {error}): such values are printed as they are"
                )
            return bytes(record.value)
