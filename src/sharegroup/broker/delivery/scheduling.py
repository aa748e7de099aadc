"""Letting records rest that are not due, before a fetch acquires what it has read.

A group with ``share.record.schedule.header.enable`` has its records looked at when they are about
to be delivered. What is not due rests (:mod:`sharegroup.share.schedule`), and the fetch goes on
behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.broker.delivery.record_looks import Read, bounds_before, looked_at
from sharegroup.model.record_headers import DELIVER_AT
from sharegroup.records.check import Buffer
from sharegroup.records.due_times import NotDue, not_due
from sharegroup.share import schedule
from sharegroup.wire.batch import BatchHeader

logger = logging.getLogger("sharegroup.broker")

UNREADABLE: Final = "schedule_headers_unreadable"
"""The counter of records whose header says no time."""
FULL: Final = "schedule_full"
"""The counter of fetches that found so many records at rest that no new ones are delivered."""

RANGES_AT_ONCE: Final = 500
"""Ranges that are let rest in one step of the event loop, which takes some milliseconds."""


async def let_rest(
    parts: DeliveryParts, led: LedSharePartition, read: Read, bounds: Sequence[tuple[int, int]]
) -> Sequence[tuple[int, int]]:
    """Let rest what is not due of the batches that were read. The caller has the fetch lock.

    ``bounds`` are what may be acquired so far. Returns what may be acquired: the same, or up to the
    first record that is not due and for which the window has no room yet.
    """
    look = partial(_in_batch, parts.clock.wall_ms())
    found = await looked_at(read, look, parts.unpacking)
    unreadable = sum(one.unreadable for one in found)
    if unreadable:
        _say_unreadable(parts, led, unreadable)
    shift = parts.clock.wall_ms() - parts.clock.monotonic_ms()
    later = [
        schedule.NotDue(first, last, due_ms - shift)
        for one in found
        for first, last, due_ms in one.ranges
    ]
    if not later or led.fenced:
        return bounds
    left = await _rest(parts, led, read, bounds, later)
    # The next read, behind these, is a large one again: there may be many more.
    led.bytes_per_offset = None
    if led.core.order.is_full(parts.share_partitions.delivery_settings(led.key.group_id)):
        _say_full(parts, led)
    return bounds if left is None else bounds_before(bounds, left)


async def _rest(
    parts: DeliveryParts,
    led: LedSharePartition,
    read: Read,
    bounds: Sequence[tuple[int, int]],
    later: Sequence[schedule.NotDue],
) -> int | None:
    """Let ``later`` rest, a part in each step of the event loop. Returns the first of them for
    which the window has no room yet."""
    for at in range(0, len(later), RANGES_AT_ONCE):
        if at:
            await asyncio.sleep(0)
        if led.fenced:
            return None
        left = led.core.let_rest(
            later[at : at + RANGES_AT_ONCE],
            bounds,
            fetch_offset=read.since,
            aborted=read.aborted,
            now_ms=parts.clock.monotonic_ms(),
            settings=parts.share_partitions.delivery_settings(led.key.group_id),
        )
        parts.share_partitions.schedule(led)
        if left is not None:
            return left
    return None


def _in_batch(now_ms: int, header: BatchHeader, records: Callable[[], Buffer]) -> NotDue:
    return not_due(header, records(), now_ms) if header.record_count else NotDue([], 0)


def _say_unreadable(parts: DeliveryParts, led: LedSharePartition, records: int) -> None:
    parts.counters.add(UNREADABLE, led.key.group_id, records)
    suffix = parts.counters.now_and_then.due(UNREADABLE)
    if suffix is not None:
        logger.warning(
            "%d records that %s was about to get have a header %s that is no time within ten "
            "years, and are delivered at once: write milliseconds since 1970 in digits%s",
            records,
            led.key,
            DELIVER_AT,
            suffix,
        )


def _say_full(parts: DeliveryParts, led: LedSharePartition) -> None:
    parts.counters.add(FULL, led.key.group_id)
    suffix = parts.counters.now_and_then.due(FULL)
    if suffix is not None:
        logger.warning(
            "%s delivers no new records until some of those that rest are due: they are too many%s",
            led.key,
            suffix,
        )
