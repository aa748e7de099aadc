"""A change of a share partition in memory as a write of its durable state, and back: durable state
has times of the wall clock in place of the monotonic clock."""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.broker.coordination.share_state_log import StateWrite
from sharegroup.model.environment import Clock
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import DelayedRow
from sharegroup.share.partition import SharePartition
from sharegroup.share.state_changes import StateChange


def as_write(
    key: SharePartitionKey, core: SharePartition, change: StateChange, clock: Clock
) -> StateWrite:
    """``change`` of ``core``, under its epochs."""
    dead = change.dead
    return StateWrite(
        key,
        core.state_epoch,
        core.leader_epoch,
        change.start_offset,
        change.delivery_complete_count,
        change.batches,
        change.lowers,
        _later(change.delayed, clock.wall_ms() - clock.monotonic_ms()) if change.delayed else (),
        tuple(one._replace(failed_ms=clock.wall_ms()) for one in dead) if dead else (),
        pending=change.pending,
        ended=change.ended,
    )


def as_loaded(delayed: Sequence[DelayedRow], clock: Clock) -> tuple[DelayedRow, ...]:
    """Rows of durable state with times of the monotonic clock."""
    return _later(delayed, clock.monotonic_ms() - clock.wall_ms()) if delayed else ()


def _later(delayed: Sequence[DelayedRow], by_ms: int) -> tuple[DelayedRow, ...]:
    return tuple(one._replace(due_ms=one.due_ms + by_ms) for one in delayed)
