"""The segments of one log: finds them by offset, and reads across their borders."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.log import AbortedTransaction, DamagedOffsets, StoredBatches
from sharegroup.storage.segment import STORED_BYTES_MIN, Segment
from sharegroup.wire.batch import parse_headers

FEW_BYTES: Final = 4096
"""A read that has found fewer bytes goes on with the next segment."""


class Mark(NamedTuple):
    """A place in the log: an offset, its segment, and the byte position there."""

    offset: int
    segment: Segment
    position: int


def index_of(segments: Sequence[Segment], offset: int) -> int:
    """The index of the segment that holds ``offset``."""
    if offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def read(
    segments: Sequence[Segment], offset: int, max_bytes: int, end_offset: int, visible: Mark
) -> bytes:
    """Read whole batches, from the one that holds ``offset`` up to ``end_offset`` and ``visible``:
    about ``max_bytes``, but at least one batch.

    A read ends at the end of a segment, unless it has found less than FEW_BYTES. The log cleaner
    may leave many segments with one empty batch each, and from some ten answers without a record
    librdkafka concludes that a batch is too large for it.

    Raises:
        CorruptMessage: ``offset`` is damaged.
    """
    found = b""
    for segment in segments[index_of(segments, offset) :]:
        limit, limit_offset = _limit(segment, end_offset, visible)
        try:
            begin = max(offset, segment.base_offset)  # where damage at its start is found
            data = segment.read(begin, max_bytes, limit, limit_offset)
        except CorruptMessage:
            if found:
                return found  # the next read, which begins at the damage, reports it
            raise
        if found and len(found) + len(data) > max_bytes:
            return found
        found += data
        if limit_offset >= end_offset or len(found) >= FEW_BYTES:
            return found
        if data and parse_headers(data)[-1].last_offset + 1 < limit_offset:
            return found  # the read ended before the segment: damage follows
    return found


def stored(
    segments: Sequence[Segment], offset: int, max_bytes: int, end_offset: int, visible: Mark
) -> StoredBatches | None:
    """Where the batches lie that :func:`read` would return; None if they must be read instead.

    Raises:
        CorruptMessage: ``offset`` is damaged.
    """
    if max_bytes < STORED_BYTES_MIN:
        return None
    segment = segments[index_of(segments, offset)]
    return segment.stored(offset, max_bytes, *_limit(segment, end_offset, visible))


def _limit(segment: Segment, end_offset: int, visible: Mark) -> tuple[int, int]:
    """How far a segment may be read: (batch boundary, its offset)."""
    if segment is visible.segment:
        limit_offset, limit = visible.offset, visible.position
    else:
        limit_offset, limit = segment.next_offset, segment.size
    if end_offset < limit_offset:
        limit_offset, limit = end_offset, segment.limit_of(end_offset)
    return limit, limit_offset


def aborted(
    segments: Sequence[Segment], start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions with batches in the range. See ``ReadableLog``."""
    transactions: list[AbortedTransaction] = []
    for segment in segments[index_of(segments, start_offset) :]:
        found = segment.transactions.find(start_offset, end_offset)
        transactions += found.transactions
        if found.complete:
            break
    return transactions


def note_durable(segments: Sequence[Segment], last: Segment) -> None:
    """The files of the segments up to ``last`` are on stable storage."""
    for segment in reversed(segments):
        if segment.durable:
            break
        segment.durable = segment.base_offset <= last.base_offset


def check_joined(segments: Sequence[Segment], end_offset: int) -> None:
    """Assert that each segment begins where the one before it ends, and the last one ends at
    ``end_offset``."""
    for earlier, later in pairwise(segments):
        assert earlier.next_offset == later.base_offset
    assert segments[-1].next_offset == end_offset


def damaged(segments: Sequence[Segment], log_start: int) -> list[DamagedOffsets]:
    """The offsets that cannot be read, ascending. Those before ``log_start`` are left out, unless
    they were lost together with the files before the first segment.
    """
    return [
        DamagedOffsets(damage.first_offset, damage.last_offset)
        for segment in segments
        for damage in segment.quarantine.damages
        if damage.offsets > 0 and damage.last_offset >= min(log_start, segment.base_offset - 1)
    ]
