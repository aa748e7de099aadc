"""Batches for these tests: whole ones by aiokafka's writer, and single records by hand."""

from __future__ import annotations

import struct

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
TIME_MS = 1_700_000_000_000
Record = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


def zigzag(number: int, width: int = 0) -> bytes:
    """A number as records hold it; padded to ``width`` bytes."""
    number = (number << 1) ^ (number >> 63)
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F or len(out) + 1 < width:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(field: bytes | None) -> bytes:
    return zigzag(-1) if field is None else zigzag(len(field)) + field


def record(
    delta: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = b"\0",
    timestamp_delta: int = 0,
    behind: bytes = b"",
) -> bytes:
    """One record; ``headers`` begin with their number, ``behind`` stands after them, inside it."""
    body = b"\0" + zigzag(timestamp_delta) + zigzag(delta) + sized(key) + sized(value)
    body += headers + behind
    return zigzag(len(body)) + body


def records(count: int) -> bytes:
    return b"".join(record(delta) for delta in range(count))


def batch_of(
    body: bytes,
    count: int,
    *,
    last_delta: int | None = None,
    attributes: int = 0,
    base_offset: int = 0,
    timestamp: int = TIME_MS,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch with a good checksum around any body."""
    last_delta = count - 1 if last_delta is None else last_delta
    latest = timestamp if max_timestamp is None else max_timestamp
    length = HEADER.size + len(body) - 12
    head = [base_offset, length, 0, 2, 0, attributes, last_delta, timestamp, latest]
    data = bytearray(HEADER.pack(*head, *producer, count) + body)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def written(records: list[Record], codec: int = 0) -> bytes:
    """One batch by aiokafka's writer."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for at, (key, value, timestamp, headers) in enumerate(records):
        assert builder.append(at, timestamp, key, value, headers) is not None
    return bytes(builder.build())
