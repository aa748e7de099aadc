"""Keeping a poison record from taking its neighbours with it (KAFKA-17541).

Records delivered often without success come in ever smaller portions: half of the run of equal
delivery counts, then half of that half (its count has grown, so it is a run of its own), and for
the last delivery one record alone. Kafka computes the same sequence, 250, 125, 62, 31, 1 of 500
under limit 10, from the size of the batch first acquired; here the window remembers it by itself.
"""

from __future__ import annotations


def portion(size: int, delivery_count: int, limit: int) -> int | None:
    """How many of ``size`` records with ``delivery_count`` deliveries go out together.

    None: no restriction, the count is below max(2, half the limit, rounded up).
    """
    if delivery_count < max(2, (limit + 1) // 2):
        return None
    if limit > 2 and delivery_count >= limit - 1:
        return 1
    return max(1, size // 2)
