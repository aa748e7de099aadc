"""The records of one batch as Python objects, from an untrusted broker.

aiokafka's compiled reader makes the objects. It trusts a batch: it decompresses without a bound and
believes the record count in the header. So we first decompress and check the batch here; the reader
gets uncompressed records that are known to be valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from sharegroup.client.core.compiled_batches import batches_in, records_in
from sharegroup.client.core.record import Headers, PlainFields
from sharegroup.records import walk
from sharegroup.records.batches import PlacedBatch
from sharegroup.records.check import check_counts, plain_records, walk_plain
from sharegroup.records.pure import LONG, field, number
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    check_crc,
    parse_header,
)

_ATTRIBUTES_AT: Final = 22
"""The place of the low byte of a batch's attributes."""


def pieces_of(
    data: bytes, check_crcs: bool, wanted: Callable[[int, int], bool]
) -> list[PlacedBatch[list[Any] | None]] | None:
    """The fast path: all batches of a fetch, if all are valid and none is compressed, which is the
    usual case. None: the caller must read each batch by itself.

    Args:
        wanted: says whether any offset from a first to a last one, both included, is wanted; if
            not, the batch's piece is empty.
    """
    if not walk.run_is_plain(data):
        return None
    pieces: list[PlacedBatch[list[Any] | None]] = []
    try:
        for batch in batches_in(data):
            first, last = batch.base_offset, batch.next_offset - 1
            piece: PlacedBatch[list[Any] | None] = PlacedBatch(first, last, None, None)
            pieces.append(piece)
            if not wanted(first, last):
                continue
            if check_crcs and not batch.validate_crc():
                return None
            if not batch.is_control_batch:
                piece.value = list(batch)
    except UnicodeDecodeError:  # a header's key
        return None
    return pieces


def records_of(batch: memoryview, check_crcs: bool) -> list[Any] | None:
    """All records of one whole batch; None: it is a control batch. If any part of the batch is
    damaged, none of its records is returned.

    Raises:
        KafkaError: CorruptMessage and others: the batch is damaged.
    """
    header = parse_header(batch)
    if check_crcs:
        check_crc(batch)
    if header.attributes & CONTROL:
        return None
    check_counts(header, dense=False)
    if header.attributes & COMPRESSION_MASK:
        plain = bytearray(batch[:HEADER_BYTES])
        plain[_ATTRIBUTES_AT] &= ~COMPRESSION_MASK
        plain += plain_records(header, batch)
        data = bytes(plain)
    else:
        data = bytes(batch)
    walk_plain(header, data, HEADER_BYTES, dense=False)
    try:
        return records_in(data)
    except UnicodeDecodeError:
        return list(_lenient(header, data))


def _lenient(header: BatchHeader, data: bytes) -> Iterator[PlainFields]:
    """The records, as aiokafka reads them, except that header keys need not be UTF-8: as in Java,
    invalid bytes become replacement characters, so that one key does not cost the whole batch.
    ``data`` was checked before."""
    position, size = HEADER_BYTES, len(data)
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    for _ in range(header.record_count):
        _, position = number(data, position, size)
        timestamp, position = number(data, position + 1, size, LONG)
        delta, position = number(data, position, size)
        key, position = _bytes(data, position)
        value, position = _bytes(data, position)
        headers: Headers = []
        count, position = number(data, position, size)
        for _ in range(count):
            name, position = _bytes(data, position)
            content, position = _bytes(data, position)
            headers.append(((name or b"").decode("utf-8", "replace"), content))
        yield PlainFields(
            header.base_offset + delta,
            header.base_timestamp + timestamp if append_time is None else append_time,
            key,
            value,
            headers,
        )


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, end = field(data, position, len(data), -1)
    return (None if length < 0 else data[end - length : end]), end
