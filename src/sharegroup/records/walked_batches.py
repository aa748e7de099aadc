"""Walks the records of produced batches before the append, and compresses batches anew where their
topic asks for it. The result remembers the walk, so that the append need not walk again."""

from __future__ import annotations

from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX
from sharegroup.model.log import Recompression
from sharegroup.records.check import plain_records, walk_records
from sharegroup.records.walk_result import Walked
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    BatchHeader,
    Buffer,
    crc_of,
    parse_headers,
    with_records,
)
from sharegroup.wire.compression import compress


class WalkedBatches(bytes):
    """Batches whose records :func:`walk_batches` has walked, so that the append need not."""

    walks: list[Walked]


def walk_batches(
    batches: bytes,
    bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    record_bytes_max: int | None = None,
) -> WalkedBatches:
    """Walk the records of all batches without any other check. All compressed batches together may
    unpack to ``bytes_max``, each of their records to ``record_bytes_max``.

    Raises:
        CorruptMessage, InvalidRecord, UnsupportedCompressionType: as
            :func:`sharegroup.records.check.check_records`.
    """
    walked = WalkedBatches(batches)
    walked.walks = []
    view = memoryview(batches)
    start, room = 0, bytes_max
    for header in parse_headers(batches):
        batch = view[start : start + header.length]
        one = walk_records(header, batch, bytes_max=room, record_bytes_max=record_bytes_max)
        walked.walks.append(one)
        start += header.length
        if header.attributes & COMPRESSION_MASK:
            room -= one.position
    return walked


def recompressed(
    batches: bytes,
    how: Recompression,
    bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    record_bytes_max: int | None = None,
) -> WalkedBatches:
    """As :func:`walk_batches`; batches of another codec than ``how`` says are compressed anew. A
    batch that is too large, or whose CRC is wrong, stays as it is: the append refuses it.

    Raises:
        CorruptMessage, InvalidRecord, UnsupportedCompressionType: as :func:`walk_batches`.
    """
    walked = walk_batches(batches, bytes_max, record_bytes_max)
    view, start, parts = memoryview(batches), 0, list[Buffer]()
    for header in parse_headers(batches):
        batch = view[start : start + header.length]
        start += header.length
        codec = header.attributes & COMPRESSION_MASK
        good = header.length <= how.batch_bytes_max and header.crc == crc_of(batch)
        parts.append(_packed(header, batch, how) if good and codec != how.codec else batch)
    result = WalkedBatches(b"".join(parts))
    result.walks = walked.walks
    return result


def _packed(header: BatchHeader, batch: Buffer, how: Recompression) -> bytes:
    plain = plain_records(header, batch)
    packed = header._replace(attributes=header.attributes & ~COMPRESSION_MASK | how.codec)
    return with_records(packed, compress(how.codec, plain, how.level) if how.codec else plain)
