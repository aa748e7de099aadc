"""The records of one batch as Python objects, from an untrusted broker.

The codec checks a batch as it reads it: the record count in the header and every length in the
records, and it unpacks no more than a batch may have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from crc32c import crc32c

from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.records import record_codec
from sharegroup.records.batches import PlacedBatch
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    check_crc,
    parse_header,
)

_HEADER: Final = struct.Struct(">qi4xbIhiqq14xi")
"""The fields of a header without leader epoch, producer id, epoch and sequence."""
_LENGTH_END: Final = 12


def pieces_of(
    data: bytes, check_crcs: bool, wanted: Callable[[int, int], bool]
) -> list[PlacedBatch[list[Any] | None]] | None:
    """The fast path: all batches of a fetch, if they ascend, none is compressed, and those that are
    wanted are valid, which is the usual case. None: the caller must read each batch by itself.

    It does without :func:`records_of` and its objects, because a batch may have one record.

    Args:
        wanted: says whether any offset from a first to a last one, both included, is wanted; if
            not, the batch's piece is empty.
    """
    pieces: list[PlacedBatch[list[Any] | None]] = []
    read = record_codec.IN_USE.read_records
    view, size, position, after = memoryview(data), len(data), 0, 0
    while size - position >= HEADER_BYTES:
        header = _HEADER.unpack_from(data, position)
        first, length, magic, crc, attributes, last_delta, base_ms, max_ms, count = header
        start, end = position + HEADER_BYTES, position + _LENGTH_END + length
        if end < start:
            return None
        if end > size:
            break
        last = first + last_delta
        ordered = after <= first <= last < OFFSET_MAX and 0 <= count <= last_delta + 1
        if not ordered or magic != MAGIC or attributes & COMPRESSION_MASK:
            return None
        piece: PlacedBatch[list[Any] | None] = PlacedBatch(first, last, None, None)
        pieces.append(piece)
        if wanted(first, last):
            if check_crcs and crc32c(view[position + CRC_START : end]) != crc:
                return None
            if not attributes & CONTROL:
                append_time = bool(attributes & LOG_APPEND_TIME)
                timestamp = max_ms if append_time else base_ms
                piece.value, verdict = read(
                    data, start, end, count, last_delta, first, timestamp, append_time
                )
                if verdict:
                    return None
        position, after = end, last + 1
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
    return None if header.attributes & CONTROL else record_codec.records_in(header, batch)
