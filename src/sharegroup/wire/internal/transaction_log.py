"""Records of ``__transaction_state``: one key for each transactional id.

Source: TransactionLogKey.json and TransactionLogValue.json of Apache Kafka 4.4. Version 1 of the
value has tagged fields; Kafka writes it from transaction version 1 on, and so do we.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import TopicPartition
from sharegroup.transactions.coordinator import Record
from sharegroup.transactions.transaction import Expired, Transaction, TransactionStage
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, message, string

KEY_PREFIX: Final = b"\0\0"
"""How the key of a transactional id begins: its version."""

VALUE_VERSIONS: Final = (0, 1)

_STATES: Final = frozenset(range(TransactionStage.COMPLETE_ABORT + 1))
"""The states that are written. Kafka keeps the others in memory only."""


@message
class TransactionLogKey(Message):
    """The key, after its version."""

    FLEXIBLE = 32_768

    transactional_id: str = string()


@message
class PartitionsSchema(Message):
    """Partitions of one topic."""

    FLEXIBLE = 1

    topic: str = string()
    partition_ids: Sequence[int] = array("i32")


@message
class TransactionLogValue(Message):
    """The value, after its version."""

    FLEXIBLE = 1

    producer_id: int = i64()
    previous_producer_id: int = i64("1+", default=-1, tag=0)
    next_producer_id: int = i64("1+", default=-1, tag=1)
    producer_epoch: int = i16()
    next_producer_epoch: int = i16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = i32()
    transaction_status: int = i8()
    transaction_partitions: Sequence[PartitionsSchema] | None = array(
        PartitionsSchema, nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = i64()
    transaction_start_timestamp_ms: int = i64()
    client_transaction_version: int = i16("1+", default=0, tag=2)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """(key, value) of a record; without value for an id that has expired."""
    key = KEY_PREFIX + encode_bytes(TransactionLogKey(record.transactional_id), 0)
    if isinstance(record, Expired):
        return key, None
    value = TransactionLogValue(
        producer_id=record.producer_id,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        producer_epoch=record.epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state,
        transaction_partitions=(
            None if record.state is TransactionStage.EMPTY else _by_topic(record.partitions)
        ),
        transaction_last_update_timestamp_ms=record.updated_ms,
        transaction_start_timestamp_ms=record.started_ms,
        client_transaction_version=record.client_version,
    )
    version = VALUE_VERSIONS[-1]
    return key, version.to_bytes(2, "big") + encode_bytes(value, version)


def decode_record(key: bytes, value: bytes | None) -> Record:
    """The record that :func:`encode_record` or Apache Kafka wrote.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    if not key.startswith(KEY_PREFIX):
        raise MalformedMessage(f"a transaction record with the key version {key[:2].hex()}")
    transactional_id = decode(TransactionLogKey, 0, key, len(KEY_PREFIX)).transactional_id
    if value is None:
        return Expired(transactional_id)
    version = int.from_bytes(value[:2], "big")
    if len(value) < 2 or version not in VALUE_VERSIONS:
        raise MalformedMessage(f"a transaction record of version {version}")
    read = decode(TransactionLogValue, version, value, 2)
    if read.transaction_status not in _STATES:
        raise MalformedMessage(f"a transaction in state {read.transaction_status}")
    if read.producer_id < 0 or read.producer_epoch < 0:
        raise MalformedMessage(f"{transactional_id} without a producer")
    return Transaction(
        transactional_id=transactional_id,
        producer_id=read.producer_id,
        epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        updated_ms=read.transaction_last_update_timestamp_ms,
        state=TransactionStage(read.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in read.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=read.transaction_start_timestamp_ms,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        client_version=read.client_transaction_version,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    return [PartitionsSchema(topic, ids) for topic, ids in topics.items()]
