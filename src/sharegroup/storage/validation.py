"""Checks a producer's record set before it is appended (Kafka classes UnifiedLog, LogValidator).

Checks headers, CRCs and every record: a batch with invalid contents would stop every consumer that
reads it, and with it the queue. Kafka accepts one batch per partition and request. Several are
accepted here too, unless an idempotent producer sent them.
"""

from __future__ import annotations

from typing import Final

from sharegroup.model import errors
from sharegroup.model.log_settings import LogSettings, TimestampType
from sharegroup.records.check import walk_records
from sharegroup.records.walk_result import TIMELESS, Walked
from sharegroup.records.walked_batches import WalkedBatches
from sharegroup.storage.faulty_records import RefusedRecord, naming
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    check_crc,
    parse_headers,
)

COMPRESSION_TYPE_MAX: Final = 4
NO_TIMESTAMP: Final = -1


def check_batches(batches: bytes, settings: LogSettings, now_ms: int) -> list[BatchHeader]:
    """Check a record set and return its headers. The largest timestamp in a returned header is
    computed from the records, whatever the producer has set. ``now_ms`` is wall-clock time.

    Raises:
        CorruptMessage: magic, length or CRC is wrong, or the records cannot be read.
        MessageTooLarge, RecordListTooLarge: over ``max.message.bytes``, over the segment size.
        InvalidRecord, InvalidTimestamp, UnsupportedCompressionType: as their names say.
    """
    headers = parse_headers(batches)
    if not headers:
        raise errors.InvalidRecord("the record set holds no batch")
    if len(batches) > settings.segment_bytes:
        raise errors.RecordListTooLarge(
            f"Message batch size is {len(batches)} bytes in append to partition, "
            f"which exceeds the maximum configured segment size of {settings.segment_bytes}."
        )
    if len(headers) == 1:
        return [_checked(headers[0], batches, settings, now_ms, _walk(batches, 0))]
    view = memoryview(batches)
    checked = []
    start = 0
    for at, header in enumerate(headers):
        if header.producer_id >= 0:
            raise errors.InvalidRecord(
                "an idempotent producer sends one batch per partition and request"
            )
        batch = view[start : start + header.length]
        checked.append(_checked(header, batch, settings, now_ms, _walk(batches, at)))
        start += header.length
    return checked


def _walk(batches: bytes, at: int) -> Walked | None:
    return batches.walks[at] if isinstance(batches, WalkedBatches) else None


def _checked(
    header: BatchHeader, batch: Buffer, settings: LogSettings, now_ms: int, walked: Walked | None
) -> BatchHeader:
    """Check one batch, the cheapest checks first."""
    _check_header(header, settings)
    check_crc(batch)
    if walked is None:
        walked = walk_records(header, batch)
    if walked.keyless and settings.compacted:
        why = "Compacted topic cannot accept message without key"
        error = errors.InvalidRecord(f"{why}: {walked.keyless} records have none")
        raise naming(error, header, batch, lambda record: None if record.has_key else why)
    if settings.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header
    timeless = (walked.earliest_ms, walked.latest_ms) == TIMELESS
    if not timeless:
        _check_times(header, batch, walked, settings, now_ms)
    latest = NO_TIMESTAMP if timeless else max(NO_TIMESTAMP, walked.latest_ms)
    return header if latest == header.max_timestamp else header._replace(max_timestamp=latest)


def _check_header(header: BatchHeader, settings: LogSettings) -> None:
    if header.length > settings.max_message_bytes:
        raise errors.MessageTooLarge(
            f"The record batch size is {header.length} bytes, "
            f"which exceeds the maximum configured value of {settings.max_message_bytes}."
        )
    if header.base_offset != 0:
        raise errors.InvalidRecord(
            f"The baseOffset of the record batch in the append should be 0, "
            f"but it is {header.base_offset}"
        )
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise errors.InvalidRecord(
            f"Inconsistent batch: last offset delta {header.last_offset_delta}, "
            f"but {header.record_count} records"
        )
    attributes = header.attributes
    if attributes & COMPRESSION_MASK > COMPRESSION_TYPE_MAX:
        raise errors.UnsupportedCompressionType(
            f"there is no compression type {attributes & COMPRESSION_MASK}"
        )
    if attributes & CONTROL:
        raise errors.InvalidRecord("Clients are not allowed to write control records")
    if attributes & TRANSACTIONAL and header.producer_id < 0:
        raise errors.InvalidRecord("a transactional batch needs a producer id")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise errors.InvalidRecord(
            f"Invalid sequence number {header.base_sequence} or epoch {header.producer_epoch} "
            f"in record batch with producerId {header.producer_id}"
        )
    if attributes & LOG_APPEND_TIME:
        raise errors.InvalidTimestamp("Producer should not set timestamp type to LogAppendTime")


def _check_times(
    header: BatchHeader, batch: Buffer, walked: Walked, settings: LogSettings, now_ms: int
) -> None:
    earliest = now_ms - settings.timestamp_before_max_ms
    latest = now_ms + settings.timestamp_after_max_ms

    def fault(record: RefusedRecord) -> str | None:
        if record.timestamp_ms == NO_TIMESTAMP or earliest <= record.timestamp_ms <= latest:
            return None
        return (
            f"Timestamp {record.timestamp_ms} of a record is out of range: it should be within "
            f"[{earliest}, {latest}]"
        )

    for timestamp in (walked.earliest_ms, walked.latest_ms):
        why = fault(RefusedRecord(0, timestamp, has_key=True))
        if why is not None:
            raise naming(errors.InvalidTimestamp(why), header, batch, fault)
