"""The responses that refuse whole requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest

from sharegroup.broker.network.api_table import API_TABLE, ServedApi
from sharegroup.model.errors import InvalidRequest
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import FieldSchema, Message

ERROR = InvalidRequest("because")
ROWS = pytest.mark.parametrize(
    "row", [*API_TABLE.values()], ids=[row.handler_name for row in API_TABLE.values()]
)


def filled(kind: Any, chance: random.Random) -> Any:
    """A message with something in every field."""
    return kind(**{f.name: value(f.metadata["wire"], chance) for f in fields(kind)})


def value(schema: FieldSchema, chance: random.Random, kind: str | None = None) -> Any:
    match kind or schema.kind:
        case "array":
            return [element(schema, chance) for _ in range(chance.randint(1, 3))]
        case "struct":
            return filled(schema.element, chance)
        case "f64":
            return 0.5
        case "bool":
            return chance.random() < 0.5
        case "uuid":
            return UUID(int=chance.getrandbits(128))
        case "string":
            return f"s{chance.randint(0, 999)}"
        case "bytes" | "records":
            return b"x"
        case _:
            return chance.randint(1, 100)


def element(schema: FieldSchema, chance: random.Random) -> Any:
    if isinstance(schema.element, type):
        return filled(schema.element, chance)
    return value(schema, chance, schema.element)


def messages(message: Any) -> Iterator[Any]:
    """The message and all messages in it."""
    yield message
    for f in fields(message):
        below = getattr(message, f.name)
        for one in below if isinstance(below, list | tuple) else [below]:
            if isinstance(one, Message):
                yield from messages(one)


@ROWS
def test_each_part_of_a_refusal_says_the_error(row: ServedApi) -> None:
    request = filled(row.api.request, random.Random(row.api.key))
    response = row.failure(request, ERROR)
    codes = {
        getattr(one, name)
        for one in messages(response)
        for name in ("error_code", "partition_error_code")
        if hasattr(one, name)
    }
    assert codes == {ERROR.code}
    said = {one.error_message for one in messages(response) if hasattr(one, "error_message")}
    assert said <= {ERROR.message}
    for version in range(row.versions.first, row.versions.last + 1):
        decode(row.api.response, version, encode_bytes(response, version))


@ROWS
def test_a_refusal_has_as_many_parts_as_its_request(row: ServedApi) -> None:
    request = filled(row.api.request, random.Random(row.api.key))
    asked = [len(parts) for parts in arrays(request)]
    for parts in arrays(row.failure(request, ERROR)):
        assert not parts or len(parts) in (*asked, sum(asked))


def arrays(message: Any) -> list[list[Any]]:
    """The arrays of the message itself."""
    found = [getattr(message, f.name) for f in fields(message)]
    return [one for one in found if isinstance(one, list)]
