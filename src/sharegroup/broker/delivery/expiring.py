"""Archiving records that are worthless by now, before a fetch acquires what it has read.

A group with ``share.record.expiry.…`` has its records looked at when they are about to be
delivered, and not before: no timer runs, and what nobody fetches is left alone. Batches that are
small when unpacked are looked at once, others in the thread for unpacking
(:mod:`sharegroup.broker.delivery.unpacking`).
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.broker.delivery.share_partitions import LedSharePartition
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.model.record_headers import EXPIRES_AT
from sharegroup.records.check import plain_records
from sharegroup.records.expiry import (
    NOBODY_IS_OLD,
    NOTHING,
    Expired,
    Rules,
    expired,
    is_worth_a_look,
    too_old,
)
from sharegroup.share.settings import Expiry
from sharegroup.wire.batch import COMPRESSION_MASK, BatchHeader, Walk, check_crc, parse_header
from sharegroup.wire.markers import is_control

logger = logging.getLogger("sharegroup.broker")

UNREADABLE: Final = "expiry_headers_unreadable"
"""The counter of records whose header says no time."""


class Read(NamedTuple):
    """The batches that were read from a log."""

    data: bytes
    batches: Walk
    aborted: Sequence[tuple[int, int]]
    """Batches of aborted transactions, whose records nobody gets."""
    since: int
    """Batches before this offset are not looked at."""


class _TooLarge(Exception):
    """The batches unpack to too many bytes for the loop's thread."""


async def archive_expired(
    parts: DeliveryParts, led: LedSharePartition, read: Read
) -> Sequence[tuple[int, int]]:
    """Archive, durably, what has expired of the batches that were read. The caller has the fetch
    lock. Returns the bounds of what may be acquired: all batches, or up to the first expired record
    for which the window has no room yet.

    Raises:
        KafkaError: the change could not be written.
    """
    expiry = parts.share_partitions.delivery_settings(led.key.group_id).expiry
    if expiry is None:
        return read.batches.bounds
    rules = rules_of(expiry, parts.clock.wall_ms())
    found = await find_expired(read, rules, parts.unpacking)
    if found.unreadable:
        _say_unreadable(parts, led, found.unreadable)
    if not found.ranges or led.fenced:
        return read.batches.bounds
    change = led.core.expire(
        found.ranges,
        read.batches.bounds,
        fetch_offset=read.since,
        aborted=read.aborted,
        settings=parts.share_partitions.delivery_settings(led.key.group_id),
    )
    if change is not None:
        parts.share_partitions.schedule(led)
        await parts.share_partitions.persist([(led, change)])
    end = led.core.order.loaded_end
    left = next((max(first, end) for first, last in found.ranges if last >= end), None)
    return read.batches.bounds if left is None else bounds_before(read.batches.bounds, left)


def bounds_before(bounds: Sequence[tuple[int, int]], end: int) -> Sequence[tuple[int, int]]:
    """The part of these batches below the offset ``end``; the last one may end earlier."""
    at = bisect_left(bounds, end, key=itemgetter(1))
    if at == len(bounds) or bounds[at][0] >= end:
        return bounds[:at]
    return [*bounds[:at], (bounds[at][0], end - 1)]


def rules_of(expiry: Expiry, now_ms: int) -> Rules:
    """The group's rules at this time, in milliseconds since 1970."""
    born_until_ms = now_ms - expiry.after_ms if expiry.after_ms else NOBODY_IS_OLD
    return Rules(now_ms, born_until_ms, expiry.by_header)


async def find_expired(read: Read, rules: Rules, unpacking: Unpacking) -> Expired:
    """The records in the batches that have expired; adjoining ranges are joined."""
    try:
        return _found(read, rules, UNPACKED_ON_LOOP_BYTES_MAX)
    except _TooLarge:
        return await unpacking.in_thread(partial(_found, read, rules))


def _found(read: Read, rules: Rules, unpacked_max: int | None = None) -> Expired:
    """As :func:`find_expired`.

    Args:
        unpacked_max: the most bytes to which all compressed batches together may unpack; None: each
            batch has a limit of its own.

    Raises:
        _TooLarge: they unpack to more.
    """
    view = memoryview(read.data)
    ranges: list[tuple[int, int]] = []
    unreadable, room = 0, unpacked_max
    for (base, last), position in zip(*read.batches, strict=True):
        if last < read.since or any(at <= base and last <= to for at, to in read.aborted):
            continue
        header = parse_header(read.data, position)
        if is_control(header):
            continue
        batch = view[position : position + header.length]
        one, unpacked = _in_batch(header, batch, rules, room)
        if room is not None:
            room -= unpacked
        unreadable += one.unreadable
        for first, until in one.ranges:
            if ranges and ranges[-1][1] + 1 == first:
                ranges[-1] = (ranges[-1][0], until)
            else:
                ranges.append((first, until))
    return Expired(ranges, unreadable)


def _in_batch(
    header: BatchHeader, batch: memoryview, rules: Rules, room: int | None
) -> tuple[Expired, int]:
    """What has expired of one batch, and how many bytes were unpacked. Of a damaged batch nothing
    has: its reader must see the damage."""
    unpacked = 0
    try:
        if too_old(header, rules):
            found = Expired([(header.base_offset, header.last_offset)], 0)
        elif is_worth_a_look(header, rules):
            packed = bool(header.attributes & COMPRESSION_MASK)
            most = DECOMPRESSED_BATCH_BYTES_MAX if room is None else room
            try:
                records = plain_records(header, batch, most)
            except CorruptMessage:
                if packed and room is not None:  # corrupt, or too large: the thread finds out which
                    raise _TooLarge from None
                raise
            unpacked = len(records) if packed else 0
            found = expired(header, records, rules)
        else:
            return NOTHING, 0
        if found.ranges:
            check_crc(batch)
    except (CorruptMessage, InvalidRecord, UnsupportedCompressionType):
        return NOTHING, unpacked
    return found, unpacked


def _say_unreadable(parts: DeliveryParts, led: LedSharePartition, records: int) -> None:
    group_id = led.key.group_id
    parts.counters.add(UNREADABLE, group_id, records)
    suffix = parts.counters.now_and_then.due(UNREADABLE)
    if suffix is not None:
        logger.warning(
            "%d records that %s was about to get have a header %s that is no time, and do not "
            "expire by it: write milliseconds since 1970 in digits%s",
            records,
            led.key,
            EXPIRES_AT,
            suffix,
        )
