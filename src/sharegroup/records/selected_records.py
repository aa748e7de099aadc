"""Batches with only the records that a member has acquired.

With order per key the records of one batch go to several members. A producer may put thousands of
records into a batch, and each member would read all of them to find a few of its own.

A batch is cut again for each fetch that finds records in it, and to find where its records begin
takes most of the time of a cut. So these places are kept for the batches that were cut last.
"""

from __future__ import annotations

from array import array
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
    BatchHeader,
    Walk,
    check_crc,
    parse_header,
    with_records,
)

PICK_BYTES_MIN: Final = 16 * 1024
"""A smaller batch goes out whole: to send it costs less than to cut it."""
PICK_PART: Final = 2
"""A batch also goes out whole if at least one record in this many is wanted."""
PLACES_BYTES_MAX: Final = 4 << 20
"""Memory for the places of records: 8 bytes a record, so for half a million records."""
ENTRY_BYTES: Final = 300
"""Memory that a batch takes beside the places of its records."""

Ranges = Sequence[tuple[int, int]]


class Picker:
    """Cuts batches. It is used by one thread at a time.

    Args:
        bytes_max: how much memory the places of records may take; the batch that was cut longest
            ago is forgotten first.
    """

    def __init__(self, bytes_max: int = PLACES_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._places: dict[bytes, array[int]] = {}
        """Where the records of a batch begin, and where the last one ends; by the batch's header,
        which has its checksum."""
        self._bytes = 0

    def picked(self, data: bytes, batches: Walk, ranges: Ranges) -> bytes | memoryview:
        """The batches that hold records of ``ranges``, which are ascending offsets. A large batch
        that is not compressed is cut to these records; offsets, timestamps and the batch's last
        offset stay.
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
                pieces.append(self._cut(batch, ranges[begin:end]) or batch)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _cut(self, batch: memoryview, ranges: Ranges) -> bytes | None:
        """The batch with only the records of ``ranges``; None: the whole batch goes out. So does a
        damaged batch: its reader must see the damage.
        """
        if len(batch) < PICK_BYTES_MIN:
            return None
        header = parse_header(batch)
        base, count = header.base_offset, header.record_count
        if (
            header.attributes & (COMPRESSION_MASK | CONTROL)
            or count != header.last_offset_delta + 1
        ):
            return None
        inside = [(max(first - base, 0), min(last - base + 1, count)) for first, last in ranges]
        wanted = sum(end - begin for begin, end in inside)
        if wanted * PICK_PART >= count:
            return None
        records = batch[HEADER_BYTES:]
        try:
            check_crc(batch)  # each time: what is kept is true of these bytes only
            places = self._places_in(bytes(batch[:HEADER_BYTES]), header, records)
        except (CorruptMessage, InvalidRecord):
            return None
        kept = b"".join([records[places[begin] : places[end]] for begin, end in inside])
        return with_records(header._replace(record_count=wanted), kept)

    def _places_in(self, key: bytes, header: BatchHeader, records: memoryview) -> array[int]:
        places = self._places.pop(key, None)
        if places is None:
            places = key_hashes(header, records).starts
            places.append(len(records))
            self._bytes += _nbytes(places)
        self._places[key] = places
        while self._bytes > self._bytes_max:
            self._bytes -= _nbytes(self._places.pop(next(iter(self._places))))
        return places


def _nbytes(places: array[int]) -> int:
    return ENTRY_BYTES + len(places) * places.itemsize


def _last(interval: tuple[int, int]) -> int:
    return interval[1]
