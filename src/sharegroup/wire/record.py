"""Single records with their headers: read out of a batch, and written into a new one.

Layout (Kafka class DefaultRecord): length, attributes (one byte), timestamp delta, offset delta,
key, value, number of headers, headers; a field is its length (-1: null) and its bytes, and every
number but the attributes has variable length.

For the few records that the broker itself copies, such as dead letters. Produced and fetched
records pass as whole batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from sharegroup.model.errors import CorruptMessage
from sharegroup.wire.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    read_varint,
    with_records,
    zigzag,
)

Header: TypeAlias = tuple[bytes, bytes | None]
"""Name and value of a record's header."""

HEADER_BYTES_MAX = 10
"""More than the lengths of one header's name and value take."""
_FIXED_BYTES = 32
"""More than all numbers of a record take."""


class RecordContent(NamedTuple):
    """What a producer has written."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    @property
    def size_max(self) -> int:
        """An upper bound of the bytes of the record in a batch."""
        data = len(self.key or b"") + len(self.value or b"")
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return data + headers + len(self.headers) * HEADER_BYTES_MAX + _FIXED_BYTES


class StoredRecord(NamedTuple):
    """A record of a log."""

    offset: int
    timestamp_ms: int
    content: RecordContent


def read_records(header: BatchHeader, plain: bytes) -> Iterator[StoredRecord]:
    """The records of one batch, in the order of their offsets.

    Args:
        plain: the records, not compressed.

    Raises:
        CorruptMessage: a record is not what it claims to be.
    """
    position = 0
    try:
        for _ in range(header.record_count):
            size, position = read_varint(plain, position)
            end = position + size
            if size < 0 or end > len(plain):
                raise CorruptMessage("a record is longer than its batch says")
            timestamp_delta, position = read_varint(plain, position + 1)
            offset_delta, position = read_varint(plain, position)
            key, position = _field(plain, position, end)
            value, position = _field(plain, position, end)
            headers, position = _headers(plain, position, end)
            timestamp = header.base_timestamp + timestamp_delta
            if header.attributes & LOG_APPEND_TIME:
                timestamp = header.max_timestamp
            content = RecordContent(key, value, headers)
            yield StoredRecord(header.base_offset + offset_delta, timestamp, content)
            position = end
    except IndexError as error:
        raise CorruptMessage("a record is cut off") from error


def _headers(data: bytes, position: int, end: int) -> tuple[list[Header], int]:
    count, position = read_varint(data, position)
    headers: list[Header] = []
    for _ in range(count):
        name, position = _field(data, position, end)
        value, position = _field(data, position, end)
        headers.append((name or b"", value))
    return headers, position


def _field(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if position + size > end:
        raise CorruptMessage("a field of a record is longer than its record")
    if size < 0:
        return None, position
    return data[position : position + size], position + size


def record_batch(records: Sequence[RecordContent], timestamp_ms: int) -> bytes:
    """One uncompressed batch of ``records``, at least one, all of one timestamp, without a
    producer's id; as a producer sends it."""
    body = b"".join(_written(delta, record) for delta, record in enumerate(records))
    header = BatchHeader(
        base_offset=0,
        length=HEADER_BYTES + len(body),
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=len(records) - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(records),
    )
    return with_records(header, body)


def _written(delta: int, record: RecordContent) -> bytes:
    body = b"".join(
        (
            b"\0\0",  # attributes and timestamp delta
            zigzag(delta),
            *_parts((record.key, record.value)),
            zigzag(len(record.headers)),
            *(part for one in record.headers for part in _parts(one)),
        )
    )
    return zigzag(len(body)) + body


def _parts(fields: Iterable[bytes | None]) -> Iterator[bytes]:
    for one in fields:
        yield zigzag(-1 if one is None else len(one))
        yield one or b""
