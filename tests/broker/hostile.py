"""Requests that no honest client sends, made from the messages' own schemas."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import fields
from random import Random
from typing import Any
from uuid import UUID

from sharegroup.wire.apis import Api
from sharegroup.wire.framing import request_frame
from sharegroup.wire.schema import FieldSchema, Message

BITS = {"i8": 7, "i16": 15, "i32": 31, "i64": 63}
NAMES = ("", "g", "jobs", "m-1", "__consumer_offsets", "\0", "*", "é" * 70, "n" * 249, "x" * 30_000)
LENGTHS = (b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xff", b"\0\x0f\x42\x41", b"\xff\xff")
"""Lengths of strings and arrays: -1, the least, the most, a million and one, -1 of 16 bits."""
VARINTS = (b"\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x80" * 5, b"\0")
"""The same for compact ones: the most, one that does not end, and null."""
MANY = 3_000


class Maker:
    """Makes requests and their bytes; the same ones for the same seed."""

    def __init__(self, seed: str, topic_ids: tuple[UUID, ...]) -> None:
        self._chance = Random(seed)
        self._topic_ids = (UUID(int=0), UUID(int=7), *topic_ids)

    def frames(self, api: Api, version: int, count: int) -> Iterator[bytes]:
        """``count`` whole requests, and as many spoiled ones."""
        for number in range(count):
            whole = self.request(api, version, number)
            yield whole
            yield self._spoiled(whole)

    def request(self, api: Api, version: int, number: int) -> bytes:
        """A request with random content, whose bytes are what they say."""
        message = self._message(api.request, version)
        return b"".join(request_frame(api, version, number, "hostile", message))

    def _spoiled(self, whole: bytes) -> bytes:
        """The same bytes with one thing wrong behind the header, and the right frame length."""
        chance = self._chance
        header = 4 + 8 + 2 + len("hostile")
        body = bytearray(whole[header:])
        at = chance.randrange(len(body) + 1)
        match chance.randrange(4):
            case 0:
                del body[at:]
            case 1 | 2:
                wrong = chance.choice(chance.choice((LENGTHS, VARINTS)))
                body[at : at + len(wrong)] = wrong
            case _:
                body[at:at] = chance.randbytes(chance.choice((1, 2, 400)))
        frame = whole[4:header] + bytes(body)
        return struct.pack(">i", len(frame)) + frame

    def _message(self, kind: type[Message], version: int) -> Message:
        made = {}
        for field in fields(kind):
            schema: FieldSchema = field.metadata["wire"]
            if version in schema.versions:
                made[field.name] = self._value(schema, version)
        return kind(**made)

    def _value(self, schema: FieldSchema, version: int) -> Any:
        chance = self._chance
        if version in schema.nullable and version not in schema.tagged and chance.random() < 0.2:
            return None
        if schema.kind == "struct":
            return self._message(schema.element, version)
        if schema.kind != "array":
            return self._primitive(schema.kind)
        if isinstance(schema.element, str):
            size = chance.choice((0, 1, 2, MANY))
            return [
                self._short(schema.element) if size > 2 else self._primitive(schema.element)
            ] * size
        return [self._message(schema.element, version) for _ in range(chance.choice((0, 1, 1, 3)))]

    def _short(self, kind: str) -> Any:
        """Many of them make a request of some kilobytes, which is long enough to be a nuisance."""
        return self._chance.choice(NAMES[:7]) if kind == "string" else self._primitive(kind)

    def _primitive(self, kind: str) -> Any:
        chance = self._chance
        if kind in BITS:
            most = 2 ** BITS[kind] - 1
            return chance.choice((0, 0, 1, -1, 2, 5, most, -most - 1, chance.randint(0, most)))
        match kind:
            case "string":
                return chance.choice(NAMES)
            case "bool":
                return chance.random() < 0.5
            case "uuid":
                return chance.choice(self._topic_ids)
            case "bytes" | "records":
                return chance.randbytes(chance.choice((0, 3, 80)))
            case "f64":
                return chance.choice((0.0, -1.0, float("inf"), float("nan")))
            case _:
                return chance.choice((0, 1, 2**16 - 1))
