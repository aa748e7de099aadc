"""Share partitions whose records come by key or by class, and a naive model's record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share.archived import Archived
from sharegroup.share.order.key_order import KeyOrder
from sharegroup.share.order.order import Order
from sharegroup.share.partition import SharePartition
from sharegroup.share.record_state import RecordState
from sharegroup.share.window import Window


def keyed_partition(
    start_offset: int = 0,
    batches: Iterable[StateRow] = (),
    delayed: Iterable[DelayedRow] = (),
    *,
    order: Callable[[Window, Archived], Order] = KeyOrder,
) -> SharePartition:
    """A share partition with order per key, or with another order."""
    return SharePartition(
        start_offset=start_offset,
        state_epoch=1,
        leader_epoch=1,
        batches=batches,
        delayed=delayed,
        order=order,
    )


def key_order(partition: SharePartition) -> KeyOrder:
    """The order of a share partition with order per key."""
    assert isinstance(partition.order, KeyOrder)
    return partition.order


@dataclass
class Record:
    """What the model knows of one; ``state`` as the numbers of durable state, 1 while held."""

    key: int
    state: int = 0
    count: int = 0
    holder: str = ""
    deadline: int = 0
    """When its lock ends, or its rest."""

    @property
    def finished(self) -> bool:
        return self.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)

    def back(self, count: int) -> None:
        self.state, self.count, self.holder = 0, count, ""
