"""The records of ``__share_group_state`` (Kafka schemas ShareSnapshotValue, ShareUpdateValue).

The key of either is the share partition; a snapshot key without a value deletes the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sharegroup.model.dead_records import DeadKey, DeadRecords
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.pending_acks import PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow, StateRow


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
    delayed: tuple[DelayedRow, ...] = ()
    """Of the available records in ``state_batches``, those with a time before which they must not
    be delivered; the newest first."""
    dead: tuple[DeadRecords, ...] = ()
    """All dead records without a dead letter."""
    pending: tuple[PendingAck, ...] = ()
    """All acknowledgements of open transactions. Their records are available in
    ``state_batches``, as an abort leaves them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """An amendment to the snapshot with the same ``snapshot_epoch`` (key type 1)."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateRow, ...]
    delayed: tuple[DelayedRow, ...] = ()
    """Of the records that became available with this change."""
    dead: tuple[DeadRecords, ...] = ()
    """Records that failed for good with this change."""
    buried: tuple[DeadKey, ...] = ()
    """Dead records that have their dead letter now. Applied before :attr:`dead`."""
    pending: tuple[PendingAck, ...] = ()
    """Acknowledgements that this change adds to transactions."""
    ended: tuple[TransactionMark, ...] = ()
    """Transactions whose acknowledgements are pending no longer. Applied before :attr:`pending`."""


StateRecord: TypeAlias = ShareSnapshot | ShareUpdate


class KeyedRecord(NamedTuple):
    """A record to append to the state topic; ``value`` None is the tombstone of a snapshot."""

    key: SharePartitionKey
    value: StateRecord | None
