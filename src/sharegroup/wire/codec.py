"""Readers and writers of messages, generated as straight-line Python per class and version, on
first use.

A reader for one version of one class is a single function: neighbouring fixed-size fields become
one ``struct`` call, strings and arrays are inlined. That makes a ShareFetch request cost a few
microseconds, with nothing compiled. Writers append chunks to a list; record data goes in by
reference and is never copied.

Rules: unknown tagged fields are skipped (KIP-482), null is refused where the version does not allow
it, no length may point past the end of the message, and a bad message raises nothing but
:class:`MalformedMessage`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import starmap
from typing import Any, TypeVar
from uuid import UUID

from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.model.limits import (
    ACKNOWLEDGE_TYPES_MAX,
    ARRAY_LENGTH_MAX,
    STRING_BYTES_MAX,
    TAGGED_FIELDS_MAX,
)
from sharegroup.wire.schema import FieldSchema, Message, element_schema
from sharegroup.wire.source import (
    FORMATS,
    ONE_BYTE,
    Source,
    block_layout,
    defaults,
    fields_of,
    layout,
)

M = TypeVar("M", bound=Message)
Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any, Callable[[bytes], None]], None]

UVARINTS = [bytes([n]) for n in range(128)]
_READERS: dict[tuple[type[Message], int, bool], Reader] = {}
_WRITERS: dict[tuple[type[Message], int, bool], Writer] = {}


def decode(kind: type[M], version: int, data: bytes, position: int = 0) -> M:
    """The message of class ``kind`` that starts at ``position``; bytes after it are ignored, as
    Kafka does.

    Raises:
        MalformedMessage: the bytes are not such a message.
    """
    return decode_prefix(kind, version, data, position)[0]


def decode_prefix(kind: type[M], version: int, data: bytes, position: int = 0) -> tuple[M, int]:
    """As :func:`decode`; also the position after the message."""
    try:
        return reader(kind, version, version >= kind.FLEXIBLE)(data, position)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise MalformedMessage(f"{kind.__name__} v{version}: {error}") from error


def encode(message: Message, version: int) -> list[bytes]:
    """The message's bytes at ``version``, as chunks in order; large record data is one chunk, by
    reference.

    Raises:
        MalformedMessage: a value does not fit its field (too large, None where null is not
            allowed, or text that UTF-8 cannot hold).
    """
    kind = type(message)
    chunks: list[bytes] = []
    try:
        writer(kind, version, version >= kind.FLEXIBLE)(message, chunks.append)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise MalformedMessage(f"{kind.__name__} v{version} cannot be written: {error}") from error
    return chunks


def encode_bytes(message: Message, version: int) -> bytes:
    """The message's bytes at ``version`` in one piece."""
    return b"".join(encode(message, version))


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Unsigned varint of at most 5 bytes at ``position``; the value and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedMessage("a varint is longer than 5 bytes")


def uvarint(value: int) -> bytes:
    """``value`` as an unsigned varint."""
    if value < 128:
        return UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


def _short() -> None:
    raise MalformedMessage("a length points past the end of the message")


def _many(count: int) -> None:
    raise MalformedMessage(f"{count} elements, tagged fields or bytes of a string are too many")


def _null(name: str) -> None:
    raise MalformedMessage(f"{name} is null, which this version does not allow")


# --- reading ---


def reader(kind: type[Message], version: int, flexible: bool) -> Reader:
    """The reader of ``kind`` at ``version``: (data, position) → (message, position after)."""
    key = (kind, version, flexible)
    if key not in _READERS:
        _READERS[key] = _make_reader(*key)
    return _READERS[key]


def _make_reader(kind: type[Message], version: int, flexible: bool) -> Reader:
    source = Source()
    source.names.update(_u=read_uvarint, _uuid=_uuid, _short=_short, _null=_null, _many=_many)
    source.add(0, "def function(d, p):")
    plain, tagged = layout(kind, version, flexible)
    values = {f.name: source.name(f.default) for f in fields_of(kind)}
    for f in fields_of(kind):
        schema = f.metadata["wire"]
        if schema.kind == "struct" and f.default is None and version not in schema.nullable:
            values[f.name] = source.name(defaults(schema.element, version, flexible))
    run: list[Any] = []
    for f in plain:
        if f.metadata["wire"].kind in FORMATS:
            run.append(f)
            continue
        _read_fixed(source, run, values)
        run = []
        values[f.name] = _read_field(source, f.name, f.metadata["wire"], version, flexible)
    _read_fixed(source, run, values)
    if flexible:
        _read_tags(source, tagged, values, version)
    arguments = ", ".join(values[f.name] for f in fields_of(kind))
    source.add(1, f"return {source.name(kind)}({arguments}), p")
    function: Reader = source.build(f"read {kind.__name__} v{version}")
    return function


def _read_fixed(source: Source, run: list[Any], values: dict[str, str]) -> None:
    """One struct call for neighbouring fixed-size fields."""
    if not run:
        return
    formats = [FORMATS[f.metadata["wire"].kind] for f in run]
    packer = struct.Struct(">" + "".join(code for code, _ in formats))
    names = [source.local() for _ in run]
    source.add(
        1, f"{', '.join(names)}, = {source.name(packer.unpack_from)}(d, p); p += {packer.size}"
    )
    for f, name in zip(run, names, strict=True):
        if f.metadata["wire"].kind == "uuid":
            source.add(1, f"{name} = _uuid({name})")
        values[f.name] = name


def _read_length(source: Source, schema: FieldSchema, flexible: bool, indent: int) -> str:
    """Add lines that read a length into a new local, which is returned; -1 is null."""
    n = source.local()
    if flexible:
        source.add(
            indent, f"{n} = d[p]; p += 1", f"if {n} > 127: {n}, p = _u(d, p - 1)", f"{n} -= 1"
        )
    else:
        code = "h" if schema.kind == "string" else "i"
        unpack = source.name(struct.Struct(">" + code).unpack_from)
        source.add(indent, f"{n}, = {unpack}(d, p); p += {2 if code == 'h' else 4}")
    return n


def _read_field(
    source: Source,
    name: str,
    schema: FieldSchema,
    version: int,
    flexible: bool,
    indent: int = 1,
    *,
    in_tag: bool = False,
) -> str:
    """Add lines that read one variable-size field. Returns the local that holds its value. A null
    struct begins with -1, and in a tagged field with 0.
    """
    v = source.local()
    nullable = version in schema.nullable
    if schema.kind == "struct":
        call = f"{v}, p = {source.name(reader(schema.element, version, flexible))}(d, p)"
        if nullable:
            there = "0 < d[p - 1] < 128" if in_tag else "d[p - 1] < 128"
            source.add(indent, f"{v} = None; p += 1", f"if {there}: {call}")
        else:
            source.add(indent, call)
        return v
    n = _read_length(source, schema, flexible, indent)
    null = "pass" if nullable or schema.kind == "records" else f"_null({name!r})"
    source.add(indent, f"if {n} < 0:", f"    {v} = None; {null}", "else:")
    if schema.kind == "array":
        _read_elements(source, v, n, schema, version, flexible, indent + 1)
        return v
    source.add(indent + 1, f"e = p + {n}", "if e > len(d): _short()")
    if schema.kind == "string":
        source.add(indent + 1, f"if {n} > {STRING_BYTES_MAX}: _many({n})")
    chunk = 'str(d[p:e], "utf-8")' if schema.kind == "string" else "d[p:e]"
    source.add(indent + 1, f"{v} = {chunk}; p = e")
    return v


def _read_elements(
    source: Source, v: str, n: str, schema: FieldSchema, version: int, flexible: bool, indent: int
) -> None:
    element = schema.element
    most = schema.most or ARRAY_LENGTH_MAX
    if isinstance(element, str) and element in FORMATS:
        code, size = FORMATS[element]
        unpack = source.name(struct.unpack_from)
        most = ACKNOWLEDGE_TYPES_MAX if element == "i8" else most
        # A count and one letter, not many letters: `struct` caches format strings.
        values = f"list({unpack}(f'>{{{n}}}{code}', d, p))"
        if element == "i8":
            values = f"list(memoryview(d)[p : p + {n}].cast('b'))"
        elif element == "uuid":
            values = f"[_uuid(d[x : x + 16]) for x in range(p, p + {n} * 16, 16)]"
        source.add(
            indent,
            f"if p + {n} * {size} > len(d): _short()",
            f"if {n} > {most}: _many({n})",
            f"{v} = {values}; p += {n} * {size}",
        )
        return
    source.add(
        indent,
        f"if {n} > len(d) - p: _short()",
        f"if {n} > {most}: _many({n})",
        f"{v} = []",
    )
    block = None if isinstance(element, str) else block_layout(element, version, flexible)
    if block is not None:
        source.add(indent, *_read_block(source, v, n, element, block))
    source.add(indent, f"for _ in range({n}):")
    if isinstance(element, str):
        x = _read_field(source, "an element", element_schema(schema), version, flexible, indent + 1)
    else:
        x = source.local()
        call = source.name(reader(element, version, flexible))
        source.add(indent + 1, f"{x}, p = {call}(d, p)")
    source.add(indent + 1, f"{v}.append({x})")


def _read_block(source: Source, v: str, n: str, element: Any, block: struct.Struct) -> list[str]:
    """Lines that read all elements at once, if each has the size of ``block``."""
    size = block.size
    plain = f"b[{size - 1}::{size}].count(0) == {n}"
    rows = f"{source.name(block.iter_unpack)}(b)"
    made = f"list({source.name(starmap)}({source.name(element)}, {rows}))"
    if block.format.endswith(ONE_BYTE + "x"):
        plain += f" and b[{size - 3}::{size}].count(2) == {n}"  # a length of 1
        names = ", ".join(f.name for f in fields_of(element)[:-1])
        made = f"[{source.name(element)}({names}, [x]) for {names}, x in {rows}]"
    return [
        f"b = d[p : p + {n} * {size}]",
        f"if {n} and len(b) == {n} * {size} and {plain}: {v} = {made}; p += {n} * {size}; {n} = 0",
    ]


def _read_tags(source: Source, tagged: list[Any], values: dict[str, str], version: int) -> None:
    """Tagged fields: known ones are read, unknown ones skipped."""
    for f in tagged:
        local = source.local()
        source.add(1, f"{local} = {values[f.name]}")
        values[f.name] = local
    source.add(
        1,
        "n = d[p]; p += 1",
        "if n > 127: n, p = _u(d, p - 1)",
        f"if n > {TAGGED_FIELDS_MAX}: _many(n)",
        "for _ in range(n):",
        "    t, p = _u(d, p)",
        "    s, p = _u(d, p)",
        "    e = p + s",
        "    if e > len(d): _short()",
    )
    for f in tagged:
        one = source.name(_tag_reader(f.name, f.metadata["wire"], version))
        source.add(2, f"if t == {f.metadata['wire'].tag}: {values[f.name]} = {one}(d, p)")
    source.add(2, "p = e")


def _tag_reader(name: str, schema: FieldSchema, version: int) -> Callable[[bytes, int], Any]:
    source = Source()
    source.names.update(_u=read_uvarint, _uuid=_uuid, _short=_short, _null=_null, _many=_many)
    source.add(0, "def function(d, p):")
    if schema.kind in FORMATS:
        packer = struct.Struct(">" + FORMATS[schema.kind][0])
        source.add(1, f"v, = {source.name(packer.unpack_from)}(d, p)")
        source.add(1, "return _uuid(v)" if schema.kind == "uuid" else "return v")
    else:
        source.add(1, f"return {_read_field(source, name, schema, version, True, in_tag=True)}")
    function: Callable[[bytes, int], Any] = source.build(f"read tag {name}")
    return function


# --- writing ---


def writer(kind: type[Message], version: int, flexible: bool) -> Writer:
    """The writer of ``kind`` at ``version``: (message, append) appends its chunks."""
    key = (kind, version, flexible)
    if key not in _WRITERS:
        _WRITERS[key] = _make_writer(*key)
    return _WRITERS[key]


def _make_writer(kind: type[Message], version: int, flexible: bool) -> Writer:
    source = Source()
    source.names.update(_uv=uvarint, _null=_null)
    source.add(0, "def function(o, w):")
    plain, tagged = layout(kind, version, flexible)
    run: list[Any] = []
    for f in plain:
        if f.metadata["wire"].kind in FORMATS:
            run.append(f)
            continue
        _write_fixed(source, run)
        run = []
        source.add(1, f"v = o.{f.name}")
        _write_field(source, f.name, f.metadata["wire"], version, flexible)
    _write_fixed(source, run)
    if flexible and not tagged:
        source.add(1, r"w(b'\0')")
    elif flexible:
        _write_tags(source, tagged, version)
    if not plain and not flexible:
        source.add(1, "pass")
    function: Writer = source.build(f"write {kind.__name__} v{version}")
    return function


def _write_fixed(source: Source, run: list[Any]) -> None:
    if not run:
        return
    packer = struct.Struct(">" + "".join(FORMATS[f.metadata["wire"].kind][0] for f in run))
    values = ", ".join(
        f"o.{f.name}.bytes" if f.metadata["wire"].kind == "uuid" else f"o.{f.name}" for f in run
    )
    source.add(1, f"w({source.name(packer.pack)}({values}))")


def _write_length(
    source: Source, schema: FieldSchema, flexible: bool, value: str, indent: int
) -> None:
    if flexible:
        source.add(indent, f"w(_uv({value} + 1))")
    else:
        code = ">h" if schema.kind == "string" else ">i"
        source.add(indent, f"w({source.name(struct.Struct(code).pack)}({value}))")


def _write_field(
    source: Source,
    name: str,
    schema: FieldSchema,
    version: int,
    flexible: bool,
    indent: int = 1,
    *,
    in_tag: bool = False,
) -> None:
    """Lines that write the variable-size value in local ``v``."""
    nullable = version in schema.nullable or schema.kind == "records"
    if schema.kind == "struct":
        call = source.name(writer(schema.element, version, flexible))
        if nullable:
            null = r"b'\x00'" if in_tag else r"b'\xff'"
            source.add(indent, f"if v is None: w({null})", rf"else: w(b'\x01'); {call}(v, w)")
        else:
            default = source.name(defaults(schema.element, version, flexible))
            source.add(indent, f"{call}({default} if v is None else v, w)")
        return
    source.add(indent, "if v is None:")
    if nullable:
        _write_length(source, schema, flexible, "-1", indent + 1)
    else:
        source.add(indent + 1, f"_null({name!r})")
    source.add(indent, "else:")
    if schema.kind == "array":
        _write_length(source, schema, flexible, "len(v)", indent + 1)
        _write_elements(source, schema, version, flexible, indent + 1)
        return
    if schema.kind == "string":
        source.add(indent + 1, "v = v.encode()")
    _write_length(source, schema, flexible, "len(v)", indent + 1)
    source.add(indent + 1, "w(v)")


def _write_elements(
    source: Source, schema: FieldSchema, version: int, flexible: bool, indent: int
) -> None:
    element = schema.element
    if isinstance(element, str) and element in FORMATS:
        pack = source.name(struct.pack)
        code = FORMATS[element][0]
        pack_all = f"w({pack}(f'>{{len(v)}}{code}', *v))"
        source.add(indent, "w(b''.join([x.bytes for x in v]))" if element == "uuid" else pack_all)
    elif isinstance(element, str):
        source.add(indent, "for v in v:")
        _write_field(source, "an element", element_schema(schema), version, flexible, indent + 1)
    elif (block := block_layout(element, version, flexible)) and ONE_BYTE not in block.format:
        values = ", ".join(f"x.{f.name}" for f in fields_of(element))
        source.add(indent, f"w(b''.join([{source.name(block.pack)}({values}) for x in v]))")
    else:
        call = source.name(writer(element, version, flexible))
        source.add(indent, f"for x in v: {call}(x, w)")


def _write_tags(source: Source, tagged: list[Any], version: int) -> None:
    """Tagged fields that differ from their default, in order of tag."""
    source.add(1, "tags = []")
    for f in tagged:
        schema: FieldSchema = f.metadata["wire"]
        default = source.name(f.default)
        source.add(1, f"v = o.{f.name}")
        empty = " and len(v)" if schema.kind == "array" and f.default == () else ""
        source.add(1, f"if v != {default}{empty}:", "    c = []")
        source.add(2, "keep = w; w = c.append")
        if schema.kind in FORMATS:
            pack = source.name(struct.Struct(">" + FORMATS[schema.kind][0]).pack)
            source.add(2, f"w({pack}({'v.bytes' if schema.kind == 'uuid' else 'v'}))")
        else:
            _write_field(source, f.name, schema, version, True, 2, in_tag=True)
        source.add(
            2, "w = keep; c = b''.join(c)", f"tags.append(_uv({schema.tag}) + _uv(len(c)) + c)"
        )
    source.add(1, "w(_uv(len(tags)))", "for c in tags: w(c)")


__all__ = [
    "NULL_TOPIC_ID",
    "decode",
    "decode_prefix",
    "encode",
    "encode_bytes",
    "read_uvarint",
    "reader",
    "uvarint",
    "writer",
]
