"""Batches with only the records that a member has acquired.

With order per key the records of one batch go to several members. A producer may put thousands of
records into a batch, and each member would read all of them to find a few of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from sharegroup.model.errors import CorruptMessage, InvalidRecord
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.records import walk as walking
from sharegroup.records.key_hashes import key_hashes
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    Walk,
    check_crc,
    parse_header,
    with_records,
)

PICK_BYTES_MIN: Final = 16 * 1024
"""A smaller batch goes out whole: to send it costs less than to cut it."""
PICK_PART: Final = 2
"""A batch also goes out whole if at least one record in this many is wanted."""

Ranges = Sequence[tuple[int, int]]


def picked(data: bytes, batches: Walk, ranges: Ranges) -> bytes | memoryview:
    """The batches that hold records of ``ranges``, which are ascending offsets. A large batch that
    is not compressed is cut to these records; offsets, timestamps and the batch's last offset stay.
    """
    if len(data) < PICK_BYTES_MIN or not walking.IS_COMPILED:
        return batches.holding(data, ranges)
    view, ends = memoryview(data), [*batches.positions, len(data)]
    pieces: list[bytes | memoryview] = []
    for number, (base, last) in enumerate(batches.bounds):
        begin = bisect_left(ranges, base, key=_last)
        end = bisect_right(ranges, (last, OFFSET_MAX))
        if begin < end:
            batch = view[ends[number] : ends[number + 1]]
            pieces.append(_picked(batch, ranges[begin:end]) or batch)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _last(interval: tuple[int, int]) -> int:
    return interval[1]


def _picked(batch: memoryview, ranges: Ranges) -> bytes | None:
    """The batch with only the records of ``ranges``; None: the whole batch goes out. So does a
    damaged batch: its reader must see the damage.
    """
    if len(batch) < PICK_BYTES_MIN:
        return None
    header = parse_header(batch)
    base, count = header.base_offset, header.record_count
    if header.attributes & (COMPRESSION_MASK | CONTROL) or count != header.last_offset_delta + 1:
        return None
    inside = [(max(first - base, 0), min(last - base + 1, count)) for first, last in ranges]
    wanted = sum(end - begin for begin, end in inside)
    if wanted * PICK_PART >= count:
        return None
    records = batch[HEADER_BYTES:]
    try:
        check_crc(batch)
        starts = key_hashes(header, records).starts
    except (CorruptMessage, InvalidRecord):
        return None
    starts.append(len(records))
    kept = b"".join([records[starts[begin] : starts[end]] for begin, end in inside])
    return with_records(header._replace(record_count=wanted), kept)
