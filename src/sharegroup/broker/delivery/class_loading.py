"""Loading what the records of a read are told by: the hashes of their keys, their tenants, or their
priorities. Headers that say no priority are counted and said once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sharegroup.broker.delivery.found_batches import FoundBatches
from sharegroup.broker.delivery.key_loading import load_keys
from sharegroup.broker.delivery.led_share_partition import LedSharePartition
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.records.priorities import PRIORITY_MAX, PRIORITY_NONE
from sharegroup.share.settings import Priority

logger = logging.getLogger("sharegroup.broker")

UNREADABLE: Final = "priority_headers_unreadable"
"""The counter of records whose header says no priority."""


async def load_classes(
    parts: DeliveryParts,
    led: LedSharePartition,
    found: FoundBatches,
    *,
    fetch_offset: int,
    aborted: Sequence[tuple[int, int]],
) -> None:
    """Let the order of a share partition take in the records that a read from ``fetch_offset`` on
    has found, as :func:`~sharegroup.broker.delivery.key_loading.load_keys` does."""
    by = parts.share_partitions.delivery_settings(led.key.group_id).classes
    unreadable = await load_keys(
        led.core.order, found.data, found.walk, parts.unpacking,
        fetch_offset=fetch_offset, aborted=aborted, by=by,
    )  # fmt: skip
    if not unreadable or not isinstance(by, Priority):
        return
    parts.counters.add(UNREADABLE, led.key.group_id, unreadable)
    suffix = parts.counters.now_and_then.due(UNREADABLE)
    if suffix is not None:
        logger.warning(
            "%d records for %s have a header %s that says no priority, and have %d: write digits, "
            "0 to %d%s",
            unreadable,
            led.key,
            by.header.decode(),
            PRIORITY_NONE,
            PRIORITY_MAX,
            suffix,
        )
