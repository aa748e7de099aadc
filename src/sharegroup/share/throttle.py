"""Keeping a poison record from taking its neighbours with it (KAFKA-17541).

Records delivered often without success come in ever smaller portions of the *delivery batch* they
came in at first (:mod:`sharegroup.share.batches`): half of it, a quarter, and so on, and for the
last delivery one record alone. Of 500 records under limit 10: 250, 125, 62, 31, 1. Records of one
delivery batch with different counts come in order of offset, the front ones are isolated first.

The arithmetic is Kafka's (class SharePartition, acquireSubsetBatchRecords), but for two things. A
portion keeps within MaxRecords. Where less often delivered records go ahead in the same portion
and are more than the portion's size, Kafka then delivers all that follows; here it ends there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sharegroup.share.spans import Span


class Portion(NamedTuple):
    """What of a throttled delivery batch goes out: its available records up to ``last``."""

    last: int
    size: int


def threshold(limit: int) -> int:
    """The delivery count from which on records are throttled, under a delivery count limit."""
    return max(2, (limit + 1) // 2)


def portion(available: Iterable[Span], *, batch_size: int, limit: int, records_max: int) -> Portion:
    """How far to deliver ``available`` records of one delivery batch of ``batch_size`` offsets.

    At least one record goes out. ``records_max`` must not be less than one.
    """
    most, last, taken = records_max, -1, 0
    throttled = False
    for first, span_last, _, count, _ in available:
        if limit > 2 and count == limit - 1:
            return Portion(last, taken) if taken else Portion(first, 1)
        if count >= threshold(limit) and not throttled:
            throttled = True
            most = min(most, max(1, batch_size >> (count - threshold(limit) + 1)))
        if taken >= most:
            break
        last = min(span_last, first + most - taken - 1)
        taken += last - first + 1
        if last < span_last:
            break
    return Portion(last, taken)
