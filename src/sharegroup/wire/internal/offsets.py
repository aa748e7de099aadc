"""Records of ``__consumer_offsets`` for committed offsets: coordinator key types 0 and 1.

Source: ``OffsetCommitKey.json``, ``OffsetCommitValue.json`` and their ``Legacy`` forms of Apache
Kafka 4.4. Keys of type 0 are read, never written.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final
from uuid import UUID

from sharegroup.groups.offsets import NONE, CommittedOffset, OffsetRecord
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire.codec import decode, encode_bytes, uvarint
from sharegroup.wire.schema import Message, i16, i32, i64, message, string, uuid

NOT_FLEXIBLE: Final = 32_768
KEY_TYPE: Final = 1
KEY_PREFIXES: Final = frozenset({b"\0\0", b"\0\1"})
"""Prefixes of the keys of these records."""

VALUE_VERSION: Final = 4
EXPIRING_VALUE_VERSION: Final = 1
"""The only version that has an expiry."""


@message
class OffsetCommitKey(Message):
    """Key types 0 and 1."""

    FLEXIBLE = NOT_FLEXIBLE

    key_type: int = i16(default=KEY_TYPE)
    group: str = string()
    topic: str = string()
    partition: int = i32()


@message
class OffsetCommitValue(Message):
    """Versions 0 to 4."""

    FLEXIBLE = 4

    offset: int = i64()
    leader_epoch: int = i32("3+", default=NONE)
    metadata: str = string()
    commit_timestamp: int = i64()
    expire_timestamp: int = i64("1", default=NONE)
    topic_id: UUID = uuid("4+", tag=0)


_KEY_HEAD: Final = struct.Struct(">hh")
_SHORT: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_VALUE_HEAD: Final = struct.Struct(">hqi")
_TIMESTAMP: Final = struct.Struct(">q")
_TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field, number 0, of 16 bytes."""


def encode_record(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    """(key, value); a tombstone has no value."""
    group = record.group_id.encode()
    topic = record.topic.encode()
    key = b"".join(
        (
            _KEY_HEAD.pack(KEY_TYPE, len(group)),
            group,
            _SHORT.pack(len(topic)),
            topic,
            _PARTITION.pack(record.partition),
        )
    )
    committed = record.committed
    return key, None if committed is None else _encode_value(committed)


def _encode_value(committed: CommittedOffset) -> bytes:
    """The bytes that the codec writes for :class:`OffsetCommitValue`, in a quarter of its time: a
    commit may have thousands of partitions."""
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = committed
    if expire_ms != NONE:
        version = EXPIRING_VALUE_VERSION
        old = OffsetCommitValue(offset, leader_epoch, metadata, commit_ms, expire_ms)
        return version.to_bytes(2, "big") + encode_bytes(old, version)
    text = metadata.encode()
    return b"".join(
        (
            _VALUE_HEAD.pack(VALUE_VERSION, offset, leader_epoch),
            uvarint(len(text) + 1),
            text,
            _TIMESTAMP.pack(commit_ms),
            _TOPIC_ID_TAG + topic_id.bytes if topic_id.int else b"\0",
        )
    )


def decode_record(
    raw_key: bytes, raw_value: bytes | None, producer_id: int = NONE, producer_epoch: int = NONE
) -> OffsetRecord:
    """The record that :func:`encode_record` or Apache Kafka wrote.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    try:
        (group_length,) = _SHORT.unpack_from(raw_key, 2)
        group_end = 4 + group_length
        (topic_length,) = _SHORT.unpack_from(raw_key, group_end)
        topic_end = group_end + 2 + topic_length
        (partition,) = _PARTITION.unpack_from(raw_key, topic_end)
        if group_length < 0 or topic_length < 0:
            raise MalformedMessage("an OffsetCommitKey with a length below 0")
        group = raw_key[4:group_end].decode()
        topic = raw_key[group_end + 2 : topic_end].decode()
        committed = None if raw_value is None else _decode_value(raw_value)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"an OffsetCommit record: {error}") from error
    return OffsetRecord(group, topic, partition, committed, producer_id, producer_epoch)


def _decode_value(raw: bytes) -> CommittedOffset:
    """The value as the codec reads it. A value that :func:`_encode_value` wrote is read in a third
    of the codec's time: a start reads all values."""
    version, offset, leader_epoch = _VALUE_HEAD.unpack_from(raw)
    length = raw[_VALUE_HEAD.size]
    if version == VALUE_VERSION and 0 < length < 0x80:
        start = _VALUE_HEAD.size + 1
        end = start + length - 1
        (commit_ms,) = _TIMESTAMP.unpack_from(raw, end)
        tags = raw[end + _TIMESTAMP.size :]
        if tags == b"\0":
            topic_id = NULL_TOPIC_ID
        elif len(tags) == len(_TOPIC_ID_TAG) + 16 and tags.startswith(_TOPIC_ID_TAG):
            topic_id = _topic_id(tags[len(_TOPIC_ID_TAG) :])
        else:
            return _decode_any_value(raw, version)
        metadata = raw[start:end].decode()
        return CommittedOffset(offset, leader_epoch, metadata, commit_ms, NONE, topic_id)
    return _decode_any_value(raw, version)


@lru_cache(maxsize=4096)
def _topic_id(raw: bytes) -> UUID:
    """One object for all offsets of a topic."""
    return UUID(bytes=raw)


def _decode_any_value(raw: bytes, version: int) -> CommittedOffset:
    if not 0 <= version <= VALUE_VERSION:
        raise MalformedMessage(f"an OffsetCommitValue of version {version}")
    value = decode(OffsetCommitValue, version, raw, 2)
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )
