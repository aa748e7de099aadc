"""Loading the keys of records that were read for a share partition with order per key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain

from sharegroup.records.check import plain_records
from sharegroup.records.key_hashes import key_hashes, offsets_of
from sharegroup.share.ordered import OrderedSharePartition
from sharegroup.wire.batch import Walk, parse_header
from sharegroup.wire.markers import is_control


def load_keys(
    core: OrderedSharePartition,
    data: bytes,
    batches: Walk,
    *,
    fetch_offset: int,
    aborted: Sequence[tuple[int, int]] = (),
) -> None:
    """Let ``core`` take in the records of a read from ``fetch_offset`` on, if it has room and has
    not done so. Control records and the records of ``aborted`` batches are for nobody.

    Raises:
        InvalidRecord, CorruptMessage: the records of a batch cannot be read.
        UnsupportedCompressionType: there is no such codec.
    """
    since = core.loaded_end
    if batches.end_offset <= since or fetch_offset > since or not core.has_room:
        return
    offsets: list[Sequence[int]] = []
    hashes: list[Sequence[int]] = []
    view = memoryview(data)
    begin = bisect_left(batches.bounds, since, key=lambda bounds: bounds[1])
    for (base, last), position in zip(
        batches.bounds[begin:], batches.positions[begin:], strict=True
    ):
        header = parse_header(data, position)
        if is_control(header) or not header.record_count:
            continue
        if any(first <= base and last <= until for first, until in aborted):
            continue
        records = plain_records(header, view[position : position + header.length])
        found = key_hashes(header, records)
        offsets.append(offsets_of(header, records, found))
        hashes.append(found.hashes)
    if len(offsets) == 1:
        core.load(offsets[0], hashes[0], batches.end_offset)
    else:
        every = [*chain.from_iterable(offsets)]
        core.load(every, [*chain.from_iterable(hashes)], batches.end_offset)
