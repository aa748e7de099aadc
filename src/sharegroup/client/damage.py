"""What is said, once for each batch, of fetched bytes that cannot be read."""

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
    """The error for a batch whose offsets are rejected, which the log has then as well."""
    text = str(reason) or repr(reason)
    log.warning("damaged, and rejected: %d-%d of %s: %s", offsets.first, offsets.last, where, text)
    return CorruptRecordBatch(where, offsets.first, text)


def note_astray(
    where: TopicPartition, astray: Sequence[Bounds], cut: CorruptMessage | None
) -> None:
    """Batches that are not where their offsets say, and what follows a length that cannot be."""
    for one in astray:
        log.warning(
            "left out: a batch that says it is %d-%d of %s, out of its order",
            one.first,
            one.last,
            where,
        )
    if cut is not None:
        log.warning("what follows in this fetch of %s is left out: %s", where, cut)
