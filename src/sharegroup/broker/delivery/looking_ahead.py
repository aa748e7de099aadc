"""Learning whose records lie ahead, for a group whose tenants take turns (``share.fairness``).

A fetch reads what it delivers. So a tenant whose records lie behind a million records of another
one would be found last. Each fetch of such a group therefore lets a task read on behind it, to the
end of the log or as far as the order may load, in small steps between which others have a turn.
What was read is hashed and dropped; it is read again when it is delivered.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sharegroup.broker.delivery.found_batches import FoundBatches, aborted_in
from sharegroup.broker.delivery.key_loading import load_keys
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.model.errors import KafkaError
from sharegroup.wire.batch import walk

logger = logging.getLogger("sharegroup.broker")

STEP_BYTES: Final = 256 * 1024
"""How much one step reads: it takes about a millisecond."""


def begin_to_look_ahead(parts: DeliveryParts, led: LedSharePartition, *, committed: bool) -> None:
    """Let a task read on, unless one does or there is nothing to read.

    Args:
        committed: the group reads committed.
    """
    if not led.looking_ahead and _is_more(led, committed=committed):
        led.looking_ahead = True
        parts.share_partitions.spawn(_look_ahead(parts, led, committed=committed))


def _is_more(led: LedSharePartition, *, committed: bool) -> bool:
    order = led.core.order
    end = led.log.last_stable_offset if committed else led.log.high_watermark
    return not led.fenced and order.may_load and order.loaded_end < end


async def _look_ahead(parts: DeliveryParts, led: LedSharePartition, *, committed: bool) -> None:
    try:
        while _is_more(led, committed=committed) and await _step(parts, led, committed=committed):
            parts.share_partitions.wake(led)
            await asyncio.sleep(0)
    except KafkaError as error:
        # Not said louder: the fetch that comes to this place meets the same, and deals with it.
        logger.debug("%s cannot look further ahead: %s", led.key, error)
    finally:
        led.looking_ahead = False


async def _step(parts: DeliveryParts, led: LedSharePartition, *, committed: bool) -> bool:
    """Load the keys of the next batches. False: a fetch has to come by here first."""
    log, offset = led.log, led.core.order.loaded_end
    if log.after_damage(offset) > offset:
        return False
    end = log.last_stable_offset if committed else log.high_watermark
    read = await log.read(offset, STEP_BYTES, end_offset=end)
    if not read.data:  # the log ends with a gap
        return False
    found = FoundBatches(read.data, walk(read.data))
    aborted = await aborted_in(log, offset, found, committed=committed)
    await load_keys(
        led.core.order, found.data, found.walk, parts.unpacking,
        fetch_offset=offset, aborted=aborted,
        fairness=parts.share_partitions.delivery_settings(led.key.group_id).fairness,
    )  # fmt: skip
    return led.core.order.loaded_end > offset
