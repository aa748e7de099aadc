"""A share coordinator with one key in it, and writes to that key."""

from __future__ import annotations

from uuid import UUID

from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord

KEY = SharePartitionKey("g", UUID(int=1), 0)
OTHER = SharePartitionKey("g", UUID(int=1), 1)
BATCH = StateBatch(10, 19, 2, 1)


def initialized(start_offset: int = 0, *, state_epoch: int = 5) -> ShareCoordinator:
    coordinator = ShareCoordinator()
    coordinator.initialize(KEY, state_epoch, start_offset, 1_000)
    return coordinator


def write(
    coordinator: ShareCoordinator,
    *batches: StateBatch,
    state_epoch: int = 5,
    leader_epoch: int = 2,
    start_offset: int = 0,
    complete: int = 0,
    now_ms: int = 2_000,
) -> KeyedRecord:
    record = coordinator.write(
        KEY, state_epoch, leader_epoch, start_offset, complete, batches, now_ms
    )
    coordinator.check_invariants()
    return record
