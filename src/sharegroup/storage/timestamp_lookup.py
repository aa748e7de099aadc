"""Offsets by timestamp (ListOffsets; Kafka class UnifiedLog, fetchOffsetByTimestamp).

The time index leads to a place in a segment, a walk over headers to the batch, and only that batch
is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.model.errors import CorruptMessage
from sharegroup.storage.segment import Segment
from sharegroup.wire.batch import LOG_APPEND_TIME, BatchHeader, decode_batch

Found = tuple[int, int]
"""(offset, timestamp in ms) of one record."""


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> Found | None:
    """The first record in ``start_offset`` … ``end_offset`` at or after ``timestamp_ms``."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        largest = segment.indexes.max_timestamp
        if segment.next_offset <= start_offset or largest < timestamp_ms:
            continue
        after = segment.indexes.time_start(timestamp_ms)
        start = segment.indexes.boundary(max(after, start_offset))
        found = _first_in_segment(segment, start, timestamp_ms, start_offset)
        if found is not None:
            return found if found[0] < end_offset else None
    return None


def latest(segments: Sequence[Segment], start_offset: int, end_offset: int) -> Found | None:
    """The first of the records with the largest timestamp (ListOffsets -3)."""
    best: tuple[int, int, Segment] | None = None
    for segment in segments:
        timestamp, offset = _largest(segment, start_offset, end_offset)
        if offset >= 0 and (best is None or timestamp > best[0]):
            best = timestamp, offset, segment
    if best is None:
        return None
    timestamp, offset, segment = best
    return _first_in_segment(segment, segment.limit_of(offset), timestamp, start_offset)


def _largest(segment: Segment, start_offset: int, end_offset: int) -> Found:
    """(timestamp, last offset of its batch) of the largest timestamp within the bounds. Only the
    first and the last segment are read: what the index does not know of the last one, and the first
    one from the log start on, if its largest timestamp lies before. The index is enough for the
    others.
    """
    offset = segment.indexes.max_timestamp_offset
    if offset < 0 or start_offset <= offset < end_offset:
        return segment.indexes.max_timestamp, offset
    timestamp, offset = segment.indexes.largest_below(end_offset)
    known_to = end_offset - 1
    if 0 <= offset < start_offset:
        timestamp, offset, known_to = -1, -1, start_offset
    for _, header in segment.headers(segment.indexes.boundary(known_to), segment.size):
        if header.base_offset >= end_offset:
            break
        if header.last_offset >= start_offset and header.max_timestamp > timestamp:
            timestamp, offset = header.max_timestamp, header.last_offset
    return timestamp, offset


def _first_in_segment(
    segment: Segment, position: int, timestamp_ms: int, start_offset: int
) -> Found | None:
    for start, header in segment.headers(position, segment.size):
        if header.last_offset < start_offset or header.max_timestamp < timestamp_ms:
            continue
        found = _first_in_batch(segment, start, header, timestamp_ms, start_offset)
        if found is not None:
            return found
    return None


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> Found | None:
    try:
        batch = segment.read(header.base_offset, header.length, position + header.length, -1)
    except CorruptMessage:  # the batch is in quarantine now: its records cannot be read
        return None
    if header.attributes & LOG_APPEND_TIME:
        return max(header.base_offset, start_offset), header.max_timestamp
    for offset, timestamp, _, _ in decode_batch(batch):
        if timestamp >= timestamp_ms and offset >= start_offset:
            return offset, timestamp
    return None
