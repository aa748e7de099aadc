"""What the share coordinator tells of the durable state of a share partition."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.model.pending_acks import PendingAck
from sharegroup.model.share_state import DelayedRow, StateRow
from sharegroup.share_state.state import UNINITIALIZED_OFFSET


class ReadResult(NamedTuple):
    """What a share-partition leader loads."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateRow, ...]
    delayed: tuple[DelayedRow, ...] = ()
    """Of the available records in ``batches``, those that rest, the newest first. Times are
    milliseconds since 1970."""
    pending: tuple[PendingAck, ...] = ()
    """Acknowledgements of open transactions, whose records nobody may get meanwhile."""


class StateSummary(NamedTuple):
    """The state of a share partition as administration requests need it."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class CopiedState(NamedTuple):
    """What a group knows of a share partition, for another group that begins with it."""

    start_offset: int
    """UNINITIALIZED_OFFSET while it has none."""
    delivery_complete_count: int
    batches: tuple[StateRow, ...] = ()
    delayed: tuple[DelayedRow, ...] = ()


class Unfinished(NamedTuple):
    """The first offsets of a share partition whose records its group still needs."""

    start_offset: int
    """Its start offset; UNINITIALIZED_OFFSET while it has none."""
    first_dead: int
    """Of the records without a dead letter; OFFSET_MAX where there are none."""

    @property
    def begun(self) -> bool:
        """Whether it has a start offset."""
        return self.start_offset != UNINITIALIZED_OFFSET

    def since(self, durable: Unfinished | None) -> Unfinished:
        """What is unfinished now, or was by the durable state ``durable``. Without a durable start
        offset (None: without a durable state) nothing is known to be finished."""
        if durable is None or (self.begun and not durable.begun):
            durable = Unfinished(0, 0)
        starts = min(self.start_offset, durable.start_offset)
        return Unfinished(starts, min(self.first_dead, durable.first_dead))
