"""Loading the keys of records that were read for a share partition that delivers by key.

Batches that are small when unpacked are hashed at once, others in the thread for unpacking
(:mod:`sharegroup.broker.delivery.unpacking`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.records.check import plain_records
from sharegroup.records.key_hashes import (
    WHOLE_KEY,
    Buffer,
    KeyHashes,
    header_tenant_hashes,
    key_hashes,
    offsets_of,
    tenant_hashes,
)
from sharegroup.records.priorities import priorities_of
from sharegroup.share.order.order import Order
from sharegroup.share.settings import Fairness, Priority
from sharegroup.wire.batch import COMPRESSION_MASK, BatchHeader, Walk, parse_header
from sharegroup.wire.markers import is_control


class _Read(NamedTuple):
    """The batches that were read from a log."""

    data: bytes
    batches: Walk
    aborted: Sequence[tuple[int, int]]
    since: int
    """The first offset whose key is not known."""
    by: Fairness | Priority | None


class _Keys(NamedTuple):
    """Records and the hashes of their keys, as :meth:`Order.load` takes them."""

    offsets: Sequence[int]
    hashes: Sequence[int]
    end: int
    unreadable: int
    """Records whose header says no priority."""


async def load_keys(
    order: Order,
    data: bytes,
    batches: Walk,
    unpacking: Unpacking,
    *,
    fetch_offset: int,
    aborted: Sequence[tuple[int, int]] = (),
    by: Fairness | Priority | None = None,
) -> int:
    """Let ``order`` take in the records of a read from ``fetch_offset`` on, if it has room and has
    not taken them in yet. Control records and records of ``aborted`` batches are left out: nobody
    gets them. ``by``: what is loaded are hashes of tenants, or priorities.

    Returns how many of the records have a header for their priority that says none.

    Yields to the loop only if it must. Two may load at once: each leaves out what the other one has
    loaded meanwhile.

    Raises:
        InvalidRecord, CorruptMessage: the records of a batch cannot be read.
        UnsupportedCompressionType: there is no such codec.
    """
    since = order.loaded_end
    if batches.end_offset <= since or fetch_offset > since or not order.may_load:
        return 0
    read = _Read(data, batches, aborted, since, by)
    try:
        keys = _keys(read, UNPACKED_ON_LOOP_BYTES_MAX)
    except CorruptMessage:  # corrupt, or too large for the loop: the thread finds out which
        keys = await unpacking.in_thread(partial(_keys, read))
    order.load(keys.offsets, keys.hashes, keys.end)
    return keys.unreadable


def _keys(read: _Read, unpacked_max: int | None = None) -> _Keys:
    """Hash the keys.

    Args:
        unpacked_max: the most bytes to which all compressed batches together may unpack; None: each
            batch has a limit of its own.

    Raises:
        CorruptMessage: the batches unpack to more bytes; and as :func:`load_keys`.
    """
    data, batches = read.data, read.batches
    offsets: list[Sequence[int]] = []
    hashes: list[Sequence[int]] = []
    view = memoryview(data)
    begin = bisect_left(batches.bounds, read.since, key=lambda bounds: bounds[1])
    room, unreadable = unpacked_max, 0
    for (base, last), position in zip(
        batches.bounds[begin:], batches.positions[begin:], strict=True
    ):
        header = parse_header(data, position)
        if is_control(header) or not header.record_count:
            continue
        if any(first <= base and last <= until for first, until in read.aborted):
            continue
        most = DECOMPRESSED_BATCH_BYTES_MAX if room is None else room
        records = plain_records(header, view[position : position + header.length], most)
        if room is not None and header.attributes & COMPRESSION_MASK:
            room -= len(records)
        if isinstance(read.by, Priority):
            said = priorities_of(header, records, read.by.header)
            unreadable += said.unreadable
            told, starts = said.priorities, said.starts
        else:
            told, starts = _hashes(header, records, read.by)
        offsets.append(offsets_of(header, records, starts))
        hashes.append(told)
    if len(offsets) == 1:
        return _Keys(offsets[0], hashes[0], batches.end_offset, unreadable)
    every = [*chain.from_iterable(offsets)]
    return _Keys(every, [*chain.from_iterable(hashes)], batches.end_offset, unreadable)


def _hashes(header: BatchHeader, records: Buffer, fairness: Fairness | None) -> KeyHashes:
    if fairness is None:
        return key_hashes(header, records)
    separator = WHOLE_KEY if fairness.separator is None else fairness.separator
    if fairness.header:
        return header_tenant_hashes(header, records, fairness.header, separator)
    return tenant_hashes(header, records, separator)
