"""Lines of a generated reader or writer, and the layout of the message class it is for."""

from __future__ import annotations

import struct
from dataclasses import Field, fields
from typing import Any

from sharegroup.wire.schema import FieldSchema, Message

FORMATS = {
    "i8": ("b", 1),
    "i16": ("h", 2),
    "i32": ("i", 4),
    "i64": ("q", 8),
    "u16": ("H", 2),
    "u32": ("I", 4),
    "f64": ("d", 8),
    "bool": ("?", 1),
    "uuid": ("16s", 16),
}


def fields_of(kind: type[Message]) -> tuple[Field[Any], ...]:
    """The dataclass fields of a message class; each has its schema as metadata."""
    return fields(kind)  # type: ignore[arg-type]  # every message class is a dataclass


def defaults(kind: type[Message], version: int, flexible: bool) -> Any:
    """An instance with every field at its default, structs included."""
    values = {}
    for f in fields_of(kind):
        schema: FieldSchema = f.metadata["wire"]
        if schema.kind == "struct" and f.default is None and version not in schema.nullable:
            values[f.name] = defaults(schema.element, version, flexible)
    return kind(**values)


ONE_BYTE = "xb"
"""Format of an array of one byte: its length, which is 2 on the wire, and the byte."""


class Source:
    """Lines of a function under construction and the names it uses."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._count = 0

    def add(self, indent: int, *lines: str) -> None:
        self.lines += ["    " * indent + line for line in lines]

    def name(self, value: Any) -> str:
        """A global name for ``value`` in the generated function."""
        self._count += 1
        name = f"g{self._count}"
        self.names[name] = value
        return name

    def local(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def build(self, label: str) -> Any:
        code = compile("\n".join(self.lines), f"<{label}>", "exec")
        exec(code, self.names)
        return self.names["function"]


def layout(kind: type[Message], version: int, flexible: bool) -> tuple[list[Any], list[Any]]:
    """The fields of this version in wire order: untagged, then tagged by tag."""
    plain, tagged = [], []
    for f in fields_of(kind):
        schema: FieldSchema = f.metadata["wire"]
        if version not in schema.versions:
            continue
        if schema.tag is not None and version in schema.tagged:
            if flexible:
                tagged.append(f)
        else:
            plain.append(f)
    tagged.sort(key=lambda f: f.metadata["wire"].tag)
    return plain, tagged


def block_layout(kind: type[Message], version: int, flexible: bool) -> struct.Struct | None:
    """The layout of one element of an array whose elements mostly have the same size: its numbers,
    then the only entry of an array of bytes if it has such a field, then no tagged field. None:
    ``kind`` is no such class.

    An array of bytes is :data:`ONE_BYTE` there.
    """
    plain, tagged = layout(kind, version, flexible)
    if not flexible or tagged or [f.name for f in plain] != [f.name for f in fields_of(kind)]:
        return None
    code = ">"
    for at, f in enumerate(plain):
        schema: FieldSchema = f.metadata["wire"]
        if schema.kind in FORMATS and schema.kind != "uuid":
            code += FORMATS[schema.kind][0]
        elif (schema.kind, schema.element, at) == ("array", "i8", len(plain) - 1):
            code += ONE_BYTE
        else:
            return None
    return struct.Struct(code + "x")
