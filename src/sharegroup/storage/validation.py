"""What a producer's record set must be before it is appended (Kafka classes UnifiedLog,
LogValidator).

Only headers and CRCs are looked at. Kafka takes one batch per partition and request; several are
taken here too, as long as no idempotent producer sent them.
"""

from __future__ import annotations

from typing import Final

from sharegroup.model.errors import (
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from sharegroup.storage.settings import LogSettings, TimestampType
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    parse_headers,
)

COMPRESSION_TYPE_MAX: Final = 4
NO_TIMESTAMP: Final = -1


def check_batches(batches: bytes, settings: LogSettings, now_ms: int) -> list[BatchHeader]:
    """The headers of a record set that may be appended. ``now_ms`` is wall-clock time.

    Raises:
        CorruptMessage: magic, length or CRC is wrong.
        MessageTooLarge, RecordListTooLarge: over ``max.message.bytes``, over the segment size.
        InvalidRecord, InvalidTimestamp, UnsupportedCompressionType, InvalidTxnState: as their names
            say.
    """
    headers = parse_headers(batches)
    if not headers:
        raise InvalidRecord("the record set holds no batch")
    if len(batches) > settings.segment_bytes:
        raise RecordListTooLarge(
            f"Message batch size is {len(batches)} bytes in append to partition, "
            f"which exceeds the maximum configured segment size of {settings.segment_bytes}."
        )
    if len(headers) == 1:
        _check_batch(headers[0], settings, now_ms)
        check_crc(batches)
        return headers
    view = memoryview(batches)
    start = 0
    for header in headers:
        if header.producer_id >= 0:
            raise InvalidRecord("an idempotent producer sends one batch per partition and request")
        _check_batch(header, settings, now_ms)
        check_crc(view[start : start + header.length])
        start += header.length
    return headers


def _check_batch(header: BatchHeader, settings: LogSettings, now_ms: int) -> None:
    if header.length > settings.max_message_bytes:
        raise MessageTooLarge(
            f"The record batch size is {header.length} bytes, "
            f"which exceeds the maximum configured value of {settings.max_message_bytes}."
        )
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"Inconsistent batch: last offset delta {header.last_offset_delta}, "
            f"but {header.record_count} records"
        )
    attributes = header.attributes
    if attributes & COMPRESSION_MASK > COMPRESSION_TYPE_MAX:
        raise UnsupportedCompressionType(
            f"there is no compression type {attributes & COMPRESSION_MASK}"
        )
    if attributes & CONTROL:
        raise InvalidRecord("Clients are not allowed to write control records")
    if attributes & TRANSACTIONAL:
        raise InvalidTxnState("transactions are not supported")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} or epoch {header.producer_epoch} "
            f"in record batch with producerId {header.producer_id}"
        )
    if settings.timestamp_type is TimestampType.CREATE_TIME:
        _check_timestamps(header, settings, now_ms)


def _check_timestamps(header: BatchHeader, settings: LogSettings, now_ms: int) -> None:
    earliest = now_ms - settings.timestamp_before_max_ms
    latest = now_ms + settings.timestamp_after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
            raise InvalidTimestamp(
                f"Timestamp {timestamp} of a batch is out of range: it should be within "
                f"[{earliest}, {latest}]"
            )
