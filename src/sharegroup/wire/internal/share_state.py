"""Records of ``__share_group_state``: snapshot (key type 0), update (key type 1), tombstone (key
type 0, no value).

Source: ShareSnapshotKey/Value.json and ShareUpdateKey/Value.json of Apache Kafka 4.4. A value is
fixed numbers, then its state batches, then tagged fields. The batches, 20 bytes each and perhaps
100,000 of them, are read and written as one block.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import starmap
from uuid import UUID

from sharegroup.model.ack_type import AckType
from sharegroup.model.dead_records import Cause, DeadKey, DeadRecords
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.pending_acks import PendingAck, TransactionMark
from sharegroup.model.share_state import DelayedRow, StateBatch, StateRow
from sharegroup.share_state.records import KeyedRecord, ShareSnapshot, ShareUpdate
from sharegroup.wire.codec import decode, decode_prefix, encode_bytes, read_uvarint, uvarint
from sharegroup.wire.schema import (
    Message,
    array,
    data,
    i8,
    i16,
    i32,
    i64,
    message,
    string,
    uuid,
)

SNAPSHOT_KEY = 0
UPDATE_KEY = 1
NOT_FLEXIBLE = 32_768
SNAPSHOT_PREFIX = SNAPSHOT_KEY.to_bytes(2, "big")
"""How the key of a snapshot begins; the rest is the share partition, in either key type."""
UPDATE_PREFIX = UPDATE_KEY.to_bytes(2, "big")
"""How the key of an update begins."""


@message
class StateKey(Message):
    """The key of both record types, after its type."""

    FLEXIBLE = NOT_FLEXIBLE

    key_type: int = i16()
    group_id: str = string()
    topic_id: UUID = uuid()
    partition: int = i32()


@message
class SnapshotHead(Message):
    """ShareSnapshotValue up to its batches."""

    FLEXIBLE = NOT_FLEXIBLE

    snapshot_epoch: int = i32()
    state_epoch: int = i32()
    leader_epoch: int = i32()
    start_offset: int = i64()
    create_timestamp: int = i64()
    write_timestamp: int = i64()


@message
class UpdateHead(Message):
    """ShareUpdateValue up to its batches."""

    FLEXIBLE = NOT_FLEXIBLE

    snapshot_epoch: int = i32()
    leader_epoch: int = i32()
    start_offset: int = i64()


@message
class StateBatchValue(Message):
    """A run of offsets in one state, in a value that has tagged fields in its batches."""

    first_offset: int = i64()
    last_offset: int = i64()
    delivery_state: int = i8()
    delivery_count: int = i16()


@message
class DeadValue(Message):
    """Records that failed for good, and have no dead letter yet."""

    first_offset: int = i64()
    last_offset: int = i64()
    failed_ms: int = i64()
    delivery_count: int = i16()
    cause: int = i8()
    member_id: str = string()
    reason: str = string()


@message
class BuriedValue(Message):
    """Names dead records whose dead letters are written."""

    first_offset: int = i64()
    failed_ms: int = i64()


@message
class PendingValue(Message):
    """Records that are acknowledged if a transaction commits."""

    first_offset: int = i64()
    last_offset: int = i64()
    producer_id: int = i64()
    producer_epoch: int = i16()
    delivery_count: int = i16()
    kind: int = i8()
    member_id: str = string()
    reason: str = string()


@message
class EndedValue(Message):
    """Names a transaction that has ended, and all earlier ones of its producer."""

    producer_id: int = i64()
    producer_epoch: int = i16()


@message
class ValueTail(Message):
    """The tagged fields of either value. Kafka's brokers and tools skip those from 9000 on, which
    are ours."""

    delivery_complete_count: int = i32(default=-1, tag=0)
    dead: Sequence[DeadValue] = array(DeadValue, tag=9000)
    buried: Sequence[BuriedValue] = array(BuriedValue, tag=9001)
    """In an update only."""
    delayed: bytes = data(tag=9002)
    """Records that rest, as one block, since there may be a million of them: first and last offset,
    delivery count, when they are due in milliseconds since 1970."""
    pending: Sequence[PendingValue] = array(PendingValue, tag=9003)
    ended: Sequence[EndedValue] = array(EndedValue, tag=9004)
    """In an update only. Applied before :attr:`pending`."""


_CAUSES = frozenset(Cause)
_IN_TRANSACTIONS = frozenset({AckType.ACCEPT, AckType.REJECT})
_VALUE_VERSION = b"\0\0"
_DELAYED = struct.Struct(">qqhq")
_BATCH = struct.Struct(">qqbhx")
"""A state batch and the count of its tagged fields, 0."""


def encode_record(keyed: KeyedRecord) -> tuple[bytes, bytes | None]:
    """(key, value) of a state record; a tombstone has no value."""
    key, record = keyed
    key_type = UPDATE_KEY if isinstance(record, ShareUpdate) else SNAPSHOT_KEY
    raw_key = encode_bytes(StateKey(key_type, key.group_id, key.topic_id, key.partition), 0)
    if record is None:
        return raw_key, None
    head: Message
    if isinstance(record, ShareUpdate):
        head = UpdateHead(record.snapshot_epoch, record.leader_epoch, record.start_offset)
    else:
        head = SnapshotHead(
            record.snapshot_epoch,
            record.state_epoch,
            record.leader_epoch,
            record.start_offset,
            record.create_timestamp_ms,
            record.write_timestamp_ms,
        )
    return raw_key, b"".join(
        (
            _VALUE_VERSION,
            encode_bytes(head, 0),
            uvarint(len(record.state_batches) + 1),
            *starmap(_BATCH.pack, record.state_batches),
            encode_bytes(_tail(record), 0),
        )
    )


def _tail(record: ShareSnapshot | ShareUpdate) -> ValueTail:
    tail = ValueTail(record.delivery_complete_count)
    if record.delayed:
        tail.delayed = b"".join(starmap(_DELAYED.pack, record.delayed))
    if record.dead:
        tail.dead = [
            DeadValue(
                one.first,
                one.last,
                one.failed_ms,
                one.delivery_count,
                one.cause,
                one.member_id,
                one.reason,
            )
            for one in record.dead
        ]
    if record.pending:
        tail.pending = [
            PendingValue(
                one.first,
                one.last,
                *one.transaction,
                one.delivery_count,
                one.kind,
                one.member_id,
                one.reason,
            )
            for one in record.pending
        ]
    if isinstance(record, ShareUpdate):
        if record.buried:
            tail.buried = [BuriedValue(*key) for key in record.buried]
        if record.ended:
            tail.ended = [EndedValue(*mark) for mark in record.ended]
    return tail


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
        update, position = decode_prefix(UpdateHead, 0, raw_value, len(_VALUE_VERSION))
        batches, position = _decode_batches(raw_value, position)
        tail = decode(ValueTail, 0, raw_value, position)
        update_record = ShareUpdate(
            snapshot_epoch=update.snapshot_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=tail.delivery_complete_count,
            state_batches=batches,
            delayed=_delayed(tail.delayed),
            dead=_dead(tail),
            buried=tuple(DeadKey(one.first_offset, one.failed_ms) for one in tail.buried),
            pending=_pending(tail),
            ended=tuple(TransactionMark(one.producer_id, one.producer_epoch) for one in tail.ended),
        )
        return KeyedRecord(share_partition, update_record)
    snapshot, position = decode_prefix(SnapshotHead, 0, raw_value, len(_VALUE_VERSION))
    batches, position = _decode_batches(raw_value, position)
    tail = decode(ValueTail, 0, raw_value, position)
    snapshot_record = ShareSnapshot(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=tail.delivery_complete_count,
        create_timestamp_ms=snapshot.create_timestamp,
        write_timestamp_ms=snapshot.write_timestamp,
        state_batches=batches,
        delayed=_delayed(tail.delayed),
        dead=_dead(tail),
        pending=_pending(tail),
    )
    return KeyedRecord(share_partition, snapshot_record)


def _delayed(block: bytes) -> tuple[DelayedRow, ...]:
    """The records that rest.

    Raises:
        MalformedMessage: the block is cut off.
    """
    if len(block) % _DELAYED.size:
        raise MalformedMessage(f"{len(block)} bytes of delayed records")
    return tuple(map(DelayedRow._make, _DELAYED.iter_unpack(block)))


def _dead(tail: ValueTail) -> tuple[DeadRecords, ...]:
    """The dead records of a value.

    Raises:
        MalformedMessage: a range is none, or a cause is unknown.
    """
    found = []
    for one in tail.dead:
        if not 0 <= one.first_offset <= one.last_offset or one.cause not in _CAUSES:
            raise MalformedMessage(f"dead records {one.first_offset}-{one.last_offset}")
        found.append(
            DeadRecords(
                one.first_offset,
                one.last_offset,
                one.delivery_count,
                Cause(one.cause),
                one.member_id,
                one.reason,
                one.failed_ms,
            )
        )
    return tuple(found)


def _pending(tail: ValueTail) -> tuple[PendingAck, ...]:
    """The acknowledgements of open transactions.

    Raises:
        MalformedMessage: a range is none, or the type is none that a transaction may have.
    """
    found = []
    for one in tail.pending:
        if not 0 <= one.first_offset <= one.last_offset or one.kind not in _IN_TRANSACTIONS:
            raise MalformedMessage(f"pending records {one.first_offset}-{one.last_offset}")
        found.append(
            PendingAck(
                one.first_offset,
                one.last_offset,
                one.delivery_count,
                one.kind,
                TransactionMark(one.producer_id, one.producer_epoch),
                one.member_id,
                one.reason,
            )
        )
    return tuple(found)


def _decode_batches(data: bytes, position: int) -> tuple[tuple[StateRow, ...], int]:
    """The array of state batches at ``position``, and the position after it."""
    try:
        length, position = read_uvarint(data, position)
    except IndexError as error:
        raise MalformedMessage(f"a state record is cut off: {error}") from error
    count = length - 1
    end = position + count * _BATCH.size
    if count < 0 or end > len(data):
        raise MalformedMessage(f"a state record of {len(data)} bytes says {count} batches")
    if data[position + _BATCH.size - 1 : end : _BATCH.size].count(0) == count:
        block = memoryview(data)[position:end]
        return tuple(_BATCH.iter_unpack(block)), end
    return _decode_tagged_batches(data, position, count)


def _decode_tagged_batches(
    data: bytes, position: int, count: int
) -> tuple[tuple[StateRow, ...], int]:
    """The batches as a later version may write them, with tagged fields in each batch."""
    batches: list[StateRow] = []
    for _ in range(count):
        value, position = decode_prefix(StateBatchValue, 0, data, position)
        batches.append(
            StateBatch(
                value.first_offset, value.last_offset, value.delivery_state, value.delivery_count
            )
        )
    return tuple(batches), position
