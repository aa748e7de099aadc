"""The segments of one log: finds them by offset, and reads across their borders."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.model.log import AbortedTransaction, DamagedOffsets
from sharegroup.storage.segment import Segment


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
    """Read whole batches of one segment, from the one that holds ``offset`` up to ``end_offset``
    and ``visible``: about ``max_bytes``, but at least one batch.

    Raises:
        CorruptMessage: ``offset`` is damaged.
    """
    for segment in segments[index_of(segments, offset) :]:
        if segment is visible.segment:
            limit_offset, limit = visible.offset, visible.position
        else:
            limit_offset, limit = segment.next_offset, segment.size
        if end_offset < limit_offset:
            limit_offset, limit = end_offset, segment.limit_of(end_offset)
        data = segment.read(offset, max_bytes, limit, limit_offset)
        if data or limit_offset >= end_offset:
            return data
    return b""


def aborted(
    segments: Sequence[Segment], start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions with batches in the range. See ``PartitionLog``."""
    transactions: list[AbortedTransaction] = []
    for segment in segments[index_of(segments, start_offset) :]:
        found = segment.transactions.find(start_offset, end_offset)
        transactions += found.transactions
        if found.complete:
            break
    return transactions


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
