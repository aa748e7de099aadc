"""Check the records of a whole batch against its header (Kafka classes LogValidator,
DefaultRecordBatch and DefaultRecord make the same checks).
"""

from __future__ import annotations

from typing import NoReturn

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, RECORD_BYTES_MIN
from sharegroup.records import walk as walking
from sharegroup.records.walk_result import Verdict, Walked
from sharegroup.wire.batch import COMPRESSION_MASK, HEADER_BYTES, BatchHeader, read_varint
from sharegroup.wire.compression import decompress

Buffer = bytes | bytearray | memoryview


def check_records(header: BatchHeader, batch: Buffer, *, dense: bool = True) -> None:
    """Walk the records of one batch, a control batch as well.

    Args:
        header: the batch's own header.
        batch: the whole batch, with its 61 bytes of header; its CRC is not checked.
        dense: the batch is as a producer makes it: as many records as offsets, and each record's
            offset delta is its index. Otherwise it is as a compacted log keeps it: the deltas
            ascend within the batch's offsets, and there may be no record at all.

    Raises:
        InvalidRecord: the records can be read, but are not the records that the header describes.
        CorruptMessage: the records cannot be read, or unpack to more than
            DECOMPRESSED_BATCH_BYTES_MAX.
        UnsupportedCompressionType: there is no such codec.
    """
    walk_records(header, batch, dense=dense)


def walk_records(
    header: BatchHeader,
    batch: Buffer,
    *,
    dense: bool = True,
    bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    record_bytes_max: int | None = None,
) -> Walked:
    """As :func:`check_records`; returns what the walk found. Compressed records may unpack to
    ``bytes_max`` in total, and each record to ``record_bytes_max``; the ``position`` in the result
    is their unpacked size then."""
    check_counts(header, dense=dense)
    if header.attributes & COMPRESSION_MASK:
        plain = plain_records(header, batch, bytes_max)
        walked = walk_plain(header, plain, dense=dense)
        if record_bytes_max is not None and len(plain) > record_bytes_max:
            _check_sizes(plain, record_bytes_max)
        return walked
    return walk_plain(header, batch, HEADER_BYTES, dense=dense)


def plain_records(
    header: BatchHeader, batch: Buffer, bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytes | memoryview:
    """The records of one batch, unpacked where they are compressed.

    Raises:
        CorruptMessage: the records cannot be unpacked, or are more than ``bytes_max``.
        UnsupportedCompressionType: there is no such codec.
    """
    body = memoryview(batch)[HEADER_BYTES:]
    codec = header.attributes & COMPRESSION_MASK
    if not codec or not header.record_count:
        return body
    return decompress(codec, body, bytes_max)


def walk_plain(header: BatchHeader, data: Buffer, start: int = 0, *, dense: bool) -> Walked:
    """Walk plain records that stand in ``data`` from ``start`` to its end.

    Raises:
        InvalidRecord, CorruptMessage: as :func:`check_records`.
    """
    check_room(header, len(data) - start)
    walked = walking.walk(
        data,
        start,
        len(data),
        header.record_count,
        header.last_offset_delta,
        dense=dense,
        base_timestamp=header.base_timestamp,
    )
    if walked.verdict is not Verdict.GOOD:
        refuse(header, walked.records, walked.verdict)
    return walked


def _check_sizes(plain: Buffer, most: int) -> None:
    """Refuse a record of more than ``most`` bytes. The records have been walked."""
    at = 0
    while at < len(plain):
        size, at = read_varint(plain, at)
        if size > most:
            raise InvalidRecord(
                f"a record of {size} bytes, unpacked; max.decompressed.message.bytes is {most}"
            )
        at += size


def check_room(header: BatchHeader, size: int) -> None:
    """Check that ``size`` plain bytes can hold the header's number of records.

    Raises:
        InvalidRecord: they cannot.
    """
    if header.record_count * RECORD_BYTES_MIN > size:
        raise InvalidRecord(f"{header.record_count} records are claimed to be in {size} bytes")


def check_counts(header: BatchHeader, *, dense: bool) -> None:
    """Check the header's number of records against its number of offsets.

    Raises:
        InvalidRecord: a batch of so many offsets cannot have so many records.
    """
    count, offsets = header.record_count, header.last_offset_delta + 1
    if dense and count != offsets:
        raise InvalidRecord(f"a batch of {offsets} offsets claims to have {count} records")
    if offsets < 1 or not 0 <= count <= offsets:
        raise InvalidRecord(f"a batch of {offsets} offsets cannot have {count} records")


def refuse(header: BatchHeader, good: int, verdict: Verdict) -> NoReturn:
    """Refuse a batch: ``verdict`` is about the record after the ``good`` ones.

    Raises:
        InvalidRecord, CorruptMessage: as :func:`check_records`.
    """
    text = f"record {good + 1} of {header.record_count}: {verdict.words}"
    if verdict.is_about_counts:
        raise InvalidRecord(text)
    raise CorruptMessage(text)
