"""Archiving records that are worthless by now, before a fetch acquires what it has read.

A group with ``share.record.expiry.…`` has its records looked at when they are about to be
delivered, and not before: no timer runs, and what nobody fetches is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.broker.delivery.record_looks import Read, bounds_before, looked_at
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.model.record_headers import EXPIRES_AT
from sharegroup.records.check import Buffer
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
from sharegroup.wire.batch import BatchHeader

logger = logging.getLogger("sharegroup.broker")

UNREADABLE: Final = "expiry_headers_unreadable"
"""The counter of records whose header says no time."""


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


def rules_of(expiry: Expiry, now_ms: int) -> Rules:
    """The group's rules at this time, in milliseconds since 1970."""
    born_until_ms = now_ms - expiry.after_ms if expiry.after_ms else NOBODY_IS_OLD
    return Rules(now_ms, born_until_ms, expiry.by_header)


async def find_expired(read: Read, rules: Rules, unpacking: Unpacking) -> Expired:
    """The records in the batches that have expired; adjoining ranges are joined."""
    ranges: list[tuple[int, int]] = []
    unreadable = 0
    for one in await looked_at(read, partial(_in_batch, rules), unpacking):
        unreadable += one.unreadable
        for first, until in one.ranges:
            if ranges and ranges[-1][1] + 1 == first:
                ranges[-1] = (ranges[-1][0], until)
            else:
                ranges.append((first, until))
    return Expired(ranges, unreadable)


def _in_batch(rules: Rules, header: BatchHeader, records: Callable[[], Buffer]) -> Expired:
    if too_old(header, rules):
        return Expired([(header.base_offset, header.last_offset)], 0)
    return expired(header, records(), rules) if is_worth_a_look(header, rules) else NOTHING


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
