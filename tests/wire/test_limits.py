"""What a message may claim: just inside is read, just outside is refused."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from sharegroup.model.errors import MalformedMessage
from sharegroup.model.limits import (
    ACKNOWLEDGE_TYPES_MAX,
    ARRAY_LENGTH_MAX,
    STRING_BYTES_MAX,
    TAGGED_FIELDS_MAX,
)
from sharegroup.wire import apis
from sharegroup.wire.codec import decode, encode_bytes, uvarint
from sharegroup.wire.framing import first_string, parse_request_header
from sharegroup.wire.schema import Message, array, string


@dataclass(slots=True)
class Texts(Message):
    texts: Sequence[str] = array("string")


@dataclass(slots=True)
class Numbers(Message):
    numbers: Sequence[int] = array("i32")


@dataclass(slots=True)
class Types(Message):
    types: Sequence[int] = array("i8")


@dataclass(slots=True)
class Text(Message):
    text: str = string()


@pytest.mark.parametrize("kind", [Texts, Numbers])
def test_elements(kind: type[Message]) -> None:
    element = b"\1" if kind is Texts else bytes(4)
    inside = uvarint(ARRAY_LENGTH_MAX + 1) + element * ARRAY_LENGTH_MAX + b"\0"
    assert decode(kind, 0, inside) is not None
    outside = uvarint(ARRAY_LENGTH_MAX + 2) + element * (ARRAY_LENGTH_MAX + 1) + b"\0"
    with pytest.raises(MalformedMessage, match="elements"):
        decode(kind, 0, outside)


def test_types_of_acknowledgements() -> None:
    inside = uvarint(ACKNOWLEDGE_TYPES_MAX + 1) + b"\1" * ACKNOWLEDGE_TYPES_MAX + b"\0"
    assert len(decode(Types, 0, inside).types) == ACKNOWLEDGE_TYPES_MAX
    outside = uvarint(ACKNOWLEDGE_TYPES_MAX + 2) + b"\1" * (ACKNOWLEDGE_TYPES_MAX + 1) + b"\0"
    with pytest.raises(MalformedMessage, match="elements"):
        decode(Types, 0, outside)


def test_types_keep_their_sign() -> None:
    assert decode(Types, 0, encode_bytes(Types([-128, -1, 0, 127]), 0)).types == [-128, -1, 0, 127]


def test_text() -> None:
    inside = encode_bytes(Text("x" * STRING_BYTES_MAX), 0)
    assert len(decode(Text, 0, inside).text) == STRING_BYTES_MAX
    with pytest.raises(MalformedMessage, match="string"):
        decode(Text, 0, encode_bytes(Text("x" * (STRING_BYTES_MAX + 1)), 0))


def tags(count: int) -> bytes:
    return uvarint(count) + b"".join(uvarint(tag) + b"\0" for tag in range(count))


def test_tagged_fields() -> None:
    assert decode(Text, 0, b"\1" + tags(TAGGED_FIELDS_MAX)).text == ""
    with pytest.raises(MalformedMessage, match="tagged fields"):
        decode(Text, 0, b"\1" + tags(TAGGED_FIELDS_MAX + 1))


def test_tagged_fields_of_a_header() -> None:
    head = struct.pack(">hhih", apis.METADATA.key, 12, 7, -1)
    assert parse_request_header(head + tags(TAGGED_FIELDS_MAX)).correlation_id == 7
    with pytest.raises(MalformedMessage, match="tagged fields"):
        parse_request_header(head + tags(TAGGED_FIELDS_MAX + 1))


def test_the_first_name_of_a_request() -> None:
    assert first_string(b"xx" + b"\4abc...", 2) == "abc"
    assert first_string(b"\0", 0) == ""
    for bad in (b"", b"\4ab", b"\3\xff\xff", b"\xff" * 9):
        with pytest.raises(MalformedMessage):
            first_string(bad, 0)
