"""Records of the internal topics: what is written is read back, and other kinds are passed over."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from sharegroup.groups.records import Tombstone
from sharegroup.groups.share import records as groups
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.model.share_state import StateBatch
from sharegroup.share_state.records import KeyedRecord, ShareSnapshot, ShareUpdate
from sharegroup.transactions.transaction import Expired, Transaction, TransactionStage
from sharegroup.wire.internal import groups as group_records
from sharegroup.wire.internal import share_state as state_records
from sharegroup.wire.internal import transaction_log as transaction_records

KEY = SharePartitionKey("group:with:colons", UUID(int=77), 3)
TOPIC = UUID(int=78)
BATCHES = (StateBatch(5, 9, 2, 0), StateBatch(12, 12, 0, 4))

STATE_RECORDS = [
    KeyedRecord(
        KEY,
        ShareSnapshot(
            snapshot_epoch=3,
            state_epoch=2,
            leader_epoch=1,
            start_offset=5,
            delivery_complete_count=5,
            create_timestamp_ms=1_700_000_000_000,
            write_timestamp_ms=1_700_000_000_001,
            state_batches=BATCHES,
        ),
    ),
    KeyedRecord(
        KEY,
        ShareUpdate(
            snapshot_epoch=3,
            leader_epoch=1,
            start_offset=-1,
            delivery_complete_count=-1,
            state_batches=(),
        ),
    ),
    KeyedRecord(KEY, None),
]

GROUP_RECORDS = [
    groups.ShareMemberMetadata(
        group_id="g",
        member_id="m",
        rack_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topics=("a", "b"),
    ),
    groups.ShareGroupMetadata(group_id="g", epoch=4, metadata_hash=-5),
    groups.ShareTargetAssignmentMetadata(group_id="g", assignment_epoch=4),
    groups.ShareTargetAssignmentMember(group_id="g", member_id="m", assignment={TOPIC: (0, 2)}),
    groups.ShareCurrentMemberAssignment(
        group_id="g",
        member_id="m",
        member_epoch=4,
        previous_member_epoch=3,
        assignment={TOPIC: (0, 2)},
    ),
    groups.StatePartitionMetadata(
        group_id="g",
        initialized=(groups.TopicPartitions(TOPIC, "a", (0, 1)),),
        initializing=(groups.TopicPartitions(TOPIC, "a", (2,)),),
        deleting=((TOPIC, "old"),),
    ),
    Tombstone(key_type=11, group_id="g"),
    Tombstone(key_type=13, group_id="g", member_id="m"),
]


@pytest.mark.parametrize("record", STATE_RECORDS)
def test_state_records_round_trip(record: KeyedRecord) -> None:
    assert state_records.decode_record(*state_records.encode_record(record)) == record


@pytest.mark.parametrize("record", GROUP_RECORDS)
def test_group_records_round_trip(record: groups.ShareRecord) -> None:
    assert group_records.decode_record(*group_records.encode_record(record)) == record


def test_records_of_other_kinds_are_skipped() -> None:
    offset_commit_key = b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\0"
    assert group_records.decode_record(offset_commit_key, b"\0\0") is None
    key, value = state_records.encode_record(STATE_RECORDS[0])
    assert state_records.decode_record(b"\0\x09" + key[2:], value) is None


def test_a_cut_record_is_malformed() -> None:
    key, value = state_records.encode_record(STATE_RECORDS[0])
    assert value is not None
    with pytest.raises(MalformedMessage):
        state_records.decode_record(key, value[:-4])
    with pytest.raises(MalformedMessage):
        state_records.decode_record(key[:-4], value)


def test_state_batches_with_tagged_fields_of_a_later_version_are_read() -> None:
    key, value = state_records.encode_record(STATE_RECORDS[0])
    assert value is not None
    last_batch = struct.pack(">qqbh", *BATCHES[1])
    at = value.index(last_batch) + len(last_batch)
    assert value[at] == 0, "the count of tagged fields"
    later = value[:at] + b"\1\5\2xy" + value[at + 1 :]
    assert state_records.decode_record(key, later) == STATE_RECORDS[0]


@pytest.mark.parametrize("count", [0, 4, 0x7F])
def test_an_impossible_count_of_state_batches_is_malformed(count: int) -> None:
    key, value = state_records.encode_record(STATE_RECORDS[0])
    assert value is not None
    at = value.index(struct.pack(">qqbh", *BATCHES[0])) - 1
    assert value[at] == len(BATCHES) + 1
    with pytest.raises(MalformedMessage):
        state_records.decode_record(key, value[:at] + bytes([count]) + value[at + 1 :])


TRANSACTIONS = [
    Transaction(transactional_id="t", producer_id=5, epoch=3, timeout_ms=60_000, updated_ms=9),
    Transaction(
        transactional_id="t" * 300,
        producer_id=2**40,
        epoch=32_767,
        timeout_ms=1,
        updated_ms=1_700_000_000_000,
        state=TransactionStage.PREPARE_COMMIT,
        partitions=frozenset({TopicPartition("a", 0), TopicPartition("a", 7)}),
        started_ms=1_600_000_000_000,
        previous_producer_id=4,
        next_producer_id=2**41,
        client_version=2,
    ),
    Expired("t"),
]


@pytest.mark.parametrize("record", TRANSACTIONS)
def test_a_transaction_is_read_back(record: Transaction | Expired) -> None:
    key, value = transaction_records.encode_record(record)
    assert transaction_records.decode_record(key, value) == record


def test_a_transaction_of_version_0() -> None:
    """As Apache Kafka writes it below transaction version 1: without tagged fields."""
    value = struct.pack(">hqhib", 0, 5, 3, 60_000, 1) + b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\7"
    record = transaction_records.decode_record(b"\0\0\0\1t", value + struct.pack(">qq", 9, 8))
    assert record == Transaction(
        transactional_id="t",
        producer_id=5,
        epoch=3,
        timeout_ms=60_000,
        updated_ms=9,
        state=TransactionStage.ONGOING,
        partitions=frozenset({TopicPartition("a", 7)}),
        started_ms=8,
    )


WHOLE = transaction_records.encode_record(TRANSACTIONS[0])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\1" + WHOLE[0][2:], WHOLE[1]),  # a later key
        (WHOLE[0][:-1], WHOLE[1]),
        (WHOLE[0], b"\0\2" + (WHOLE[1] or b"")[2:]),  # a later value
        (WHOLE[0], (WHOLE[1] or b"")[:20]),
        (WHOLE[0], b"\0"),
        (WHOLE[0], b""),
        (WHOLE[0], struct.pack(">hqhib", 1, 5, 3, 1, 6) + b"\0" + bytes(17)),  # Dead
        (WHOLE[0], struct.pack(">hqhib", 1, 5, 3, 1, -1) + b"\0" + bytes(17)),
        (WHOLE[0], struct.pack(">hqhib", 1, -1, 3, 1, 0) + b"\0" + bytes(17)),
        (WHOLE[0], struct.pack(">hqhib", 1, 5, -1, 1, 0) + b"\0" + bytes(17)),
    ],
)
def test_a_malformed_transaction_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        transaction_records.decode_record(key, value)
