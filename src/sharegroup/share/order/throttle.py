"""Throttle poison records, so that they do not take their neighbours with them (KAFKA-17541).

Records that were delivered often without success are redelivered in ever smaller portions of their
*delivery batch*, the records first delivered together (:mod:`sharegroup.share.batches`): half of
it, a quarter, and so on. For its last delivery a record is alone. Of 500 records under limit 10:
250, 125, 62, 31, 1. Records of one delivery batch with different counts are delivered in the order
of offsets, so the first ones are isolated first.

The arithmetic is Kafka's (class SharePartition, acquireSubsetBatchRecords), with two differences. A
portion never exceeds MaxRecords. And where records with lower counts come first in a portion and
are more than its size, the portion ends there; Kafka then delivers all that follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sharegroup.share.spans import Span


class Portion(NamedTuple):
    """The part of a throttled delivery batch to deliver: its available records up to ``last``."""

    last: int
    size: int


def threshold(limit: int) -> int:
    """The delivery count at which throttling begins, for a delivery count limit."""
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
