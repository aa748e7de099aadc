"""The records of ``__share_group_state`` (Kafka schemas ShareSnapshotValue, ShareUpdateValue).

The key of either is the share partition; a snapshot key without a value deletes the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshot:
    """The whole state (key type 0). Times are wall-clock milliseconds."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    state_batches: tuple[StateRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """An amendment to the snapshot with the same ``snapshot_epoch`` (key type 1)."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateRow, ...]


StateRecord: TypeAlias = ShareSnapshot | ShareUpdate


class KeyedRecord(NamedTuple):
    """A record to append to the state topic; ``value`` None is the tombstone of a snapshot."""

    key: SharePartitionKey
    value: StateRecord | None
