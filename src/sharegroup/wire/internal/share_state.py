"""Records of ``__share_group_state``: snapshot (key type 0), update (key type 1), tombstone (key
type 0, no value).

Source: ShareSnapshotKey/Value.json and ShareUpdateKey/Value.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.records import KeyedRecord, ShareSnapshot, ShareUpdate
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, string, uuid

SNAPSHOT_KEY = 0
UPDATE_KEY = 1
NOT_FLEXIBLE = 32_768
SNAPSHOT_PREFIX = SNAPSHOT_KEY.to_bytes(2, "big")
"""How the key of a snapshot begins; the rest is the share partition, in either key type."""


@dataclass(slots=True)
class StateKey(Message):
    """The key of both record types, after its type."""

    FLEXIBLE = NOT_FLEXIBLE

    key_type: int = i16()
    group_id: str = string()
    topic_id: UUID = uuid()
    partition: int = i32()


@dataclass(slots=True)
class StateBatchValue(Message):
    """A run of offsets in one state."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_state: int = i8()
    delivery_count: int = i16()


@dataclass(slots=True)
class SnapshotValue(Message):
    """ShareSnapshotValue version 0."""

    snapshot_epoch: int = i32()
    state_epoch: int = i32()
    leader_epoch: int = i32()
    start_offset: int = i64()
    delivery_complete_count: int = i32(default=-1, tag=0)
    create_timestamp: int = i64()
    write_timestamp: int = i64()
    state_batches: Sequence[StateBatchValue] = array(StateBatchValue)


@dataclass(slots=True)
class UpdateValue(Message):
    """ShareUpdateValue version 0."""

    snapshot_epoch: int = i32()
    leader_epoch: int = i32()
    start_offset: int = i64()
    delivery_complete_count: int = i32(default=-1, tag=0)
    state_batches: Sequence[StateBatchValue] = array(StateBatchValue)


_VALUE_VERSION = b"\0\0"


def encode_record(keyed: KeyedRecord) -> tuple[bytes, bytes | None]:
    """(key, value) of a state record; a tombstone has no value."""
    key, record = keyed
    key_type = UPDATE_KEY if isinstance(record, ShareUpdate) else SNAPSHOT_KEY
    raw_key = encode_bytes(StateKey(key_type, key.group_id, key.topic_id, key.partition), 0)
    if record is None:
        return raw_key, None
    batches = [StateBatchValue(*batch) for batch in record.state_batches]
    value: Message
    if isinstance(record, ShareUpdate):
        value = UpdateValue(
            record.snapshot_epoch,
            record.leader_epoch,
            record.start_offset,
            record.delivery_complete_count,
            batches,
        )
    else:
        value = SnapshotValue(
            record.snapshot_epoch,
            record.state_epoch,
            record.leader_epoch,
            record.start_offset,
            record.delivery_complete_count,
            record.create_timestamp_ms,
            record.write_timestamp_ms,
            batches,
        )
    return raw_key, _VALUE_VERSION + encode_bytes(value, 0)


def decode_record(raw_key: bytes, raw_value: bytes | None) -> KeyedRecord | None:
    """The record that :func:`encode_record` (or Apache Kafka) wrote; None for a key type we do not
    know.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    key = decode(StateKey, 0, raw_key)
    if key.key_type not in (SNAPSHOT_KEY, UPDATE_KEY):
        return None
    share_partition = SharePartitionKey(key.group_id, key.topic_id, key.partition)
    if raw_value is None:
        return KeyedRecord(share_partition, None)
    if key.key_type == UPDATE_KEY:
        update = decode(UpdateValue, 0, raw_value, 2)
        update_record = ShareUpdate(
            snapshot_epoch=update.snapshot_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=_batches(update.state_batches),
        )
        return KeyedRecord(share_partition, update_record)
    snapshot = decode(SnapshotValue, 0, raw_value, 2)
    snapshot_record = ShareSnapshot(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=snapshot.delivery_complete_count,
        create_timestamp_ms=snapshot.create_timestamp,
        write_timestamp_ms=snapshot.write_timestamp,
        state_batches=_batches(snapshot.state_batches),
    )
    return KeyedRecord(share_partition, snapshot_record)


def _batches(values: Sequence[StateBatchValue]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(v.first_offset, v.last_offset, v.delivery_state, v.delivery_count)
        for v in values
    )
