"""Share partitions with order per key."""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share import KeyOrder, SharePartition


def keyed_partition(
    start_offset: int = 0,
    batches: Iterable[StateRow] = (),
    delayed: Iterable[DelayedRow] = (),
) -> SharePartition:
    """A share partition with order per key."""
    return SharePartition(
        start_offset=start_offset,
        state_epoch=1,
        leader_epoch=1,
        batches=batches,
        delayed=delayed,
        order=KeyOrder,
    )


def key_order(partition: SharePartition) -> KeyOrder:
    """The order of a share partition with order per key."""
    assert isinstance(partition.order, KeyOrder)
    return partition.order
