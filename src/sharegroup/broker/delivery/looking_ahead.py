"""Learning what lies ahead, for a group whose records come by class: by tenant (``share.fairness``)
or by priority (``share.priority.header``).

A fetch reads what it delivers. So a tenant whose records lie behind a million records of another
one would be found last, and so would an urgent record. Each fetch of such a group therefore first
reads what is not known yet, to the end of the log or as far as the order may load, in small steps
between which others have a turn. The fetch waits for AT_ONCE_BYTES, so that what lies near is known
when it looks for the next record; a task does the rest. What was read is looked at and dropped; it
is read again when it is delivered.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sharegroup.broker.delivery.class_loading import load_classes
from sharegroup.broker.delivery.found_batches import FoundBatches, aborted_in
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model.errors import KafkaError
from sharegroup.wire.batch import walk

logger = logging.getLogger("sharegroup.broker")

STEP_BYTES: Final = 256 * 1024
"""How much one step reads: it takes about a millisecond."""
AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""How far a fetch looks before it delivers: some 30 milliseconds, once for these records."""


async def look_ahead(parts: DeliveryParts, led: LedSharePartition, *, committed: bool) -> None:
    """Read on, unless a task does or there is nothing to read. What is far ahead is left to a task.

    Args:
        committed: the group reads committed.
    """
    if led.looking_ahead:
        return
    led.looking_ahead = True
    try:
        for _ in range(AT_ONCE_BYTES // STEP_BYTES):
            if not await _goes_on(parts, led, committed=committed):
                return
    finally:  # also if the fetch is cancelled
        led.looking_ahead = False
    led.looking_ahead = True
    parts.share_partitions.spawn(_look_ahead(parts, led, committed=committed))


def _is_more(led: LedSharePartition, *, committed: bool) -> bool:
    order = led.core.order
    end = led.log.last_stable_offset if committed else led.log.high_watermark
    return not led.fenced and order.may_load and order.loaded_end < end


async def _look_ahead(parts: DeliveryParts, led: LedSharePartition, *, committed: bool) -> None:
    try:
        while await _goes_on(parts, led, committed=committed):
            parts.share_partitions.wake(led)
    finally:
        led.looking_ahead = False


async def _goes_on(parts: DeliveryParts, led: LedSharePartition, *, committed: bool) -> bool:
    """Take a step, and let others have a turn. False: there is nothing to read, or it cannot be
    read."""
    try:
        found = _is_more(led, committed=committed) and await _step(parts, led, committed=committed)
    except KafkaError as error:
        # Not said louder: the fetch that comes to this place meets the same, and deals with it.
        logger.debug("%s cannot look further ahead: %s", led.key, error)
        return False
    if found:
        await asyncio.sleep(0)
    return found


async def _step(parts: DeliveryParts, led: LedSharePartition, *, committed: bool) -> bool:
    """Load the classes of the next batches' records. False: a fetch has to come by here first."""
    log, offset = led.log, led.core.order.loaded_end
    if log.after_damage(offset) > offset:
        return False
    end = log.last_stable_offset if committed else log.high_watermark
    read = await log.read(offset, STEP_BYTES, end_offset=end)
    if not read.data:  # the log ends with a gap
        return False
    found = FoundBatches(read.data, walk(read.data))
    aborted = await aborted_in(log, offset, found, committed=committed)
    await load_classes(parts, led, found, fetch_offset=offset, aborted=aborted)
    return led.core.order.loaded_end > offset
