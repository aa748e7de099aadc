"""Stored batches as a fetch with key ranges answers them (KIP-X, "Key Based Filtering").

A batch goes out as it is stored if all its records are wanted. Else the wanted records go out as a
batch of their own, not compressed: to compress it anew for each range would cost more than to find
the records. A batch whose records cannot be read goes out as it is stored, too. So its reader sees
the damage, as it would by a plain fetch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import Intervals, minus, normal
from sharegroup.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from sharegroup.records.check import Buffer, plain_records
from sharegroup.records.key_hashes import Cut, KeyHashes, cut, key_hashes, offsets_of
from sharegroup.wire.batch import COMPRESSION_MASK, CONTROL, BatchHeader, check_crc, parse_header
from sharegroup.wire.markers import is_control


class Known(NamedTuple):
    """What an earlier fetch found out of a batch."""

    hashes: KeyHashes
    plain: bytes | None
    """Its unpacked records; None: unpack them again."""


class Room(NamedTuple):
    """Room in an answer."""

    bytes_max: int
    must: bool
    """The first batch goes out even when it is larger than that; then with as few records as
    possible."""


class Wish(NamedTuple):
    """What is wanted of the batches of one read."""

    ranges: Intervals
    fetch_offset: int
    room: Room


class Filtered(NamedTuple):
    """The part of one stored batch that goes out."""

    header: BatchHeader
    """The header of the stored batch."""
    next_offset: int
    """Where the next fetch goes on; inside the batch, if it was cut short."""
    data: Buffer
    """One batch, or nothing."""
    known: Known | None
    """To be recalled at the next fetch; None: there is nothing to remember."""
    holes: Intervals = ()
    """The offsets below ``next_offset`` without a record: offsets of markers, and of records that
    were compacted away. Offsets before this batch are included."""

    @property
    def has_records(self) -> bool:
        """Whether there is a batch, and it is no control batch."""
        return bool(self.data) and not is_control(self.header)


KEPT_RECORDS_MIN: Final = 16
"""The hashes of plain batches of fewer records are computed anew: that is as quick as to look them
up, and they would take more memory than the records."""

Recall = Callable[[BatchHeader], Known | None]
"""What is known of a batch; None: nothing."""


def filtered(data: bytes, wish: Wish, recall: Recall) -> Iterator[Filtered]:
    """Go through the batches in ``data``, up to the first for which there is no room."""
    view, position, left, must = memoryview(data), 0, *wish.room
    offset = wish.fetch_offset
    while position < len(data):
        header = parse_header(data, position)
        batch = view[position : position + header.length]
        position += header.length
        if header.last_offset < wish.fetch_offset:
            continue
        room = Room(left, must)
        found = _one(header, batch, wish, room, recall)
        if found is None:
            return
        between = ((offset, header.base_offset - 1),) if offset < header.base_offset else ()
        holes = normal((*between, *found.holes))
        offset = found.next_offset
        yield found._replace(holes=minus(holes, ((0, wish.fetch_offset - 1),))) if holes else found
        left -= len(found.data)
        must = must and not found.data
        if found.next_offset <= header.last_offset:
            return


def _one(
    header: BatchHeader, batch: memoryview, wish: Wish, room: Room, recall: Recall
) -> Filtered | None:
    """The part of one batch that goes out; None: there is no room for it."""
    behind = header.last_offset + 1
    fits = room.must or len(batch) <= room.bytes_max
    all_of_it = ((header.base_offset, header.last_offset),)
    stored = Filtered(header, behind, batch, None) if fits else None
    if header.attributes & CONTROL:
        return stored and stored._replace(holes=all_of_it)
    if wish.ranges == WHOLE:
        return stored
    if not header.record_count:
        return Filtered(header, behind, b"", None, all_of_it)
    try:
        records, hashes, kept = _hashed(header, batch, recall)
    except (CorruptMessage, InvalidRecord, UnsupportedCompressionType):
        return stored
    found = _cut(header, batch, wish, room, (records, hashes, kept))
    if found is None or header.record_count == header.last_offset_delta + 1:
        return found
    offsets = [at for at in offsets_of(header, records, hashes.starts) if at < found.next_offset]
    around = pairwise([header.base_offset - 1, *offsets, found.next_offset])
    return found._replace(holes=tuple((a + 1, b - 1) for a, b in around if a + 1 < b))


def _cut(
    header: BatchHeader,
    batch: memoryview,
    wish: Wish,
    room: Room,
    parts: tuple[Buffer, KeyHashes, Known | None],
) -> Filtered | None:
    """As :func:`_one`, of a batch whose records can be read."""
    records, hashes, kept = parts
    behind = header.last_offset + 1
    fits = room.must or len(batch) <= room.bytes_max
    if kept is None:  # few records: counting them is quicker than cutting
        inside = _count_inside(hashes, wish.ranges)
        if not inside:
            return Filtered(header, behind, b"", None)
        if inside == header.record_count:
            return Filtered(header, behind, batch, None) if fits else None
    whole = cut(header, records, hashes, wish.ranges)
    if not whole.records:
        return Filtered(header, behind, b"", kept)
    if whole.records == header.record_count and fits:
        return Filtered(header, behind, batch, kept)
    if header.base_offset >= wish.fetch_offset and len(whole.data) <= room.bytes_max:
        return Filtered(header, behind, whole.data, kept)
    return _part(header, records, hashes, wish, room, kept)


def _hashed(
    header: BatchHeader, batch: memoryview, recall: Recall
) -> tuple[Buffer, KeyHashes, Known | None]:
    """A batch's plain records, their hashes, and what to keep for the next fetch."""
    known = recall(header)
    packed = header.attributes & COMPRESSION_MASK
    if known is not None and known.plain is not None:
        return known.plain, known.hashes, known
    check_crc(batch)
    records = plain_records(header, batch)
    hashes = key_hashes(header, records) if known is None else known.hashes
    if packed:
        return records, hashes, Known(hashes, bytes(records))
    keeps = header.record_count >= KEPT_RECORDS_MIN
    return records, hashes, Known(hashes, None) if keeps else None


def _count_inside(hashes: KeyHashes, ranges: Intervals) -> int:
    """How many records have a hash in the ranges, which ascend; for few records."""
    count = 0
    for one in hashes.hashes:
        at = bisect_right(ranges, (one, HASH_MAX)) - 1
        count += at >= 0 and one <= ranges[at][1]
    return count


def _part(
    header: BatchHeader,
    records: Buffer,
    hashes: KeyHashes,
    wish: Wish,
    room: Room,
    kept: Known | None,
) -> Filtered | None:
    """The wanted records from the fetch offset on. If they do not fit: None, or, if something must
    go out, the first of them that fit, at least one record."""
    offsets = offsets_of(header, records, hashes.starts)
    first, end = bisect_left(offsets, wish.fetch_offset), len(offsets)
    while True:
        behind = offsets[end] if end < len(offsets) else header.last_offset + 1
        found = _window(header, records, hashes, (first, end, behind), wish.ranges)
        if not found.records:
            return Filtered(header, behind, b"", kept)
        if len(found.data) <= room.bytes_max or (room.must and end - first == 1):
            return Filtered(header, behind, found.data, kept)
        if not room.must:
            return None
        end = (first + end) // 2


def _window(
    header: BatchHeader,
    records: Buffer,
    index: KeyHashes,
    window: tuple[int, int, int],
    ranges: Intervals,
) -> Cut:
    """:func:`cut` of the records ``first`` up to ``end``, by index. The batch ends before the
    offset ``behind``."""
    first, end, behind = window
    stop = index.starts[end] if end < len(index.starts) else len(records)
    some = KeyHashes(index.hashes[first:end], index.starts[first:end])
    short = header._replace(last_offset_delta=behind - 1 - header.base_offset)
    return cut(short, memoryview(records)[:stop], some, ranges)
