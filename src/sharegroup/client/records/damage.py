"""Logs fetched bytes that cannot be read, once for each batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sharegroup.client.errors import CorruptRecordBatch
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.records.batches import Bounds

log = logging.getLogger("sharegroup.client")


def note_damage(
    where: TopicPartition, offsets: OffsetRange, reason: Exception
) -> CorruptRecordBatch:
    """Log a damaged batch whose offsets are rejected. Returns the error for it."""
    text = str(reason) or repr(reason)
    log.warning(
        "rejecting damaged records: %d-%d of %s: %s", offsets.first, offsets.last, where, text
    )
    return CorruptRecordBatch(where, offsets.first, text)


def note_astray(
    where: TopicPartition, astray: Sequence[Bounds], cut: CorruptMessage | None
) -> None:
    """Log batches outside the expected offsets, and bytes after an invalid batch length."""
    for one in astray:
        log.warning(
            "skipping a batch with offsets %d-%d of %s, which are out of order",
            one.first,
            one.last,
            where,
        )
    if cut is not None:
        log.warning("skipping the rest of this fetch of %s: %s", where, cut)
