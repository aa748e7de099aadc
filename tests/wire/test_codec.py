"""Every message at every version: what we write kio reads, what kio writes we read."""

from __future__ import annotations

import io
from dataclasses import fields
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.apis import APIS, SHARE_FETCH, Api
from sharegroup.wire.codec import FORMATS, decode, decode_prefix, encode_bytes, uvarint
from sharegroup.wire.schema import FieldSchema, Message

BOUNDS = {"i8": 7, "i16": 15, "i32": 31, "i64": 63}
KNOWN_CODES = sorted(code.value for code in ErrorCode)
OURS = 9_000  # tags from here up are our extensions, which kio does not know


def primitive(kind: str, name: str) -> st.SearchStrategy[Any]:
    if name.endswith("error_code"):
        return st.sampled_from(KNOWN_CODES)
    if kind in BOUNDS:
        high = 2 ** BOUNDS[kind] - 1
        # kio holds times as timedelta and datetime, which end earlier than the wire does
        return (
            st.integers(0, min(high, 2**40))
            if "ms" in name or "timestamp" in name
            else st.integers(-high - 1, high)
        )
    return {
        "u16": st.integers(0, 2**16 - 1),
        "u32": st.integers(0, 2**32 - 1),
        "bool": st.booleans(),
        "f64": st.floats(allow_nan=False, allow_infinity=False),
        "uuid": st.uuids(),
        "string": st.text(st.characters(codec="utf-8"), max_size=140),
        "bytes": st.binary(max_size=8),
        "records": st.binary(max_size=200),
    }[kind]


def value(schema: FieldSchema, name: str, version: int) -> st.SearchStrategy[Any]:
    if schema.kind == "struct":
        made: st.SearchStrategy[Any] = message(schema.element, version)
    elif schema.kind == "array" and isinstance(schema.element, str):
        made = st.lists(primitive(schema.element, name), max_size=3)
    elif schema.kind == "array":
        made = st.lists(message(schema.element, version), max_size=2)
    else:
        made = primitive(schema.kind, name)
    if version in schema.nullable and version not in schema.tagged:
        made = st.none() | made
    return made


@cache
def message(kind: type[Message], version: int) -> st.SearchStrategy[Any]:
    made = {}
    for f in fields(kind):
        schema: FieldSchema = f.metadata["wire"]
        ours = schema.tag is not None and schema.tag >= OURS
        if version in schema.versions and not ours:
            made[f.name] = value(schema, f.name, version)
    return st.builds(kind, **made)


def cases() -> list[Any]:
    kio_names = {"request": EntityType.request, "response": EntityType.response}
    return [
        pytest.param(api, way, version, id=f"{api.name}-{way}-v{version}")
        for api in APIS.values()
        for way, entity in kio_names.items()
        for version in sorted(schema_name_map[api.module])
        if entity in schema_name_map[api.module][version]
    ]


def kio_class(api: Api, way: str, version: int) -> Any:
    module = load_entity_module(api.module, version, EntityType[way])
    return getattr(module, api.name + way.capitalize())


@pytest.mark.parametrize(("api", "way", "version"), cases())
@settings(max_examples=8)
@given(draw=st.data())
def test_round_trip_through_kio(api: Api, way: str, version: int, draw: st.DataObject) -> None:
    kind = getattr(api, way)
    ours = draw.draw(message(kind, version))
    written = encode_bytes(ours, version)

    theirs, size = entity_reader(kio_class(api, way, version))(written, 0)
    assert size == len(written)
    buffer = io.BytesIO()
    entity_writer(kio_class(api, way, version))(buffer, theirs)

    read, end = decode_prefix(kind, version, buffer.getvalue())
    assert end == len(buffer.getvalue())
    assert encode_bytes(read, version) == written


def share_fetch_request() -> Message:
    return SHARE_FETCH.request(group_id="g", member_id="m", share_session_epoch=1)  # type: ignore[call-arg]


def test_an_unknown_tagged_field_is_skipped() -> None:
    written = encode_bytes(share_fetch_request(), 2)
    tagged = written[:-1] + b"\x01" + uvarint(8_999) + b"\x03abc"
    assert decode(SHARE_FETCH.request, 2, tagged) == decode(SHARE_FETCH.request, 2, written)


def test_our_tagged_field_round_trips() -> None:
    request = share_fetch_request()
    request.without_records = True  # type: ignore[attr-defined]
    written = encode_bytes(request, 2)
    read = decode(SHARE_FETCH.request, 2, written)
    assert read.without_records is True  # type: ignore[attr-defined]
    assert encode_bytes(read, 2) == written


@given(
    cut=st.integers(0, 200),
    junk=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=4),
)
def test_any_bytes_give_a_message_or_malformed(cut: int, junk: list[tuple[int, int]]) -> None:
    from sharegroup.wire.messages.share_acknowledge import AcknowledgementBatch
    from sharegroup.wire.messages.share_fetch import FetchPartition, FetchTopic

    batch = AcknowledgementBatch(first_offset=1, last_offset=9, acknowledge_types=[1] * 9)
    topic = FetchTopic(topic_id=UUID(int=7), partitions=[FetchPartition(0, [batch, batch])])
    request = share_fetch_request()
    request.topics = [topic, topic]  # type: ignore[attr-defined]
    raw = bytearray(encode_bytes(request, 2))
    for where, byte in junk:
        raw[where % len(raw)] = byte
    try:
        decode(SHARE_FETCH.request, 2, bytes(raw[: len(raw) - cut % len(raw)]))
    except MalformedMessage:
        return


def test_a_huge_array_is_refused_before_it_is_built() -> None:
    from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest

    with pytest.raises(MalformedMessage, match="past the end"):
        decode(DeleteTopicsRequest, 1, b"\x7f\xff\xff\xff")


def test_null_in_a_non_nullable_field_is_refused() -> None:
    from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest

    with pytest.raises(MalformedMessage, match="null"):
        decode(DeleteTopicsRequest, 1, b"\xff\xff\xff\xff")
    with pytest.raises(MalformedMessage, match="null"):
        encode_bytes(DeleteTopicsRequest(topic_names=None), 1)  # type: ignore[arg-type]


def test_text_that_utf_8_cannot_hold_is_refused() -> None:
    request = SHARE_FETCH.request(group_id="\udcff", member_id="m", share_session_epoch=1)  # type: ignore[call-arg]
    with pytest.raises(MalformedMessage, match="cannot be written: 'utf-8' codec can't encode"):
        encode_bytes(request, 2)


def test_every_fixed_kind_has_a_size() -> None:
    assert {kind: size for kind, (_, size) in FORMATS.items() if kind == "i32"} == {"i32": 4}
