"""Records of ``__individual_commit_offsets``: ranges of offsets that groups have committed (KIP-X).

The key holds the whole range, so that a null record deletes it, as in the draft. The type of the
key, 9000, is not used by Kafka.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from sharegroup.groups.range_commits import RangeRecord
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import Message, i16, i32, i64, message, string

KEY_TYPE: Final = 9000
KEY_PREFIX: Final = KEY_TYPE.to_bytes(2, "big")
VERSION: Final = 0


@message
class IndividualCommitKey(Message):
    """The key of a range; both ends are included."""

    FLEXIBLE = 32_768

    key_type: int = i16(default=KEY_TYPE)
    group: str = string()
    topic: str = string()
    partition: int = i32()
    first_offset: int = i64()
    last_offset: int = i64()


@message
class IndividualCommitValue(Message):
    """Version 0."""

    FLEXIBLE = 0

    commit_timestamp: int = i64()


_RANGE: Final = struct.Struct(">qq")
_VALUE: Final = struct.Struct(">hqb")
_NO_TAGS: Final = 0


def encode_record(record: RangeRecord) -> tuple[bytes, bytes | None]:
    """(key, value); a null record has no value. The same bytes as the codec's, in a tenth of its
    time: one commit may have thousands of ranges."""
    group_id, topic, partition, first, last, written, commit_ms = record
    key = _key_head(group_id, topic, partition) + _RANGE.pack(first, last)
    return key, _VALUE.pack(VERSION, commit_ms, _NO_TAGS) if written else None


@lru_cache(maxsize=256)
def _key_head(group_id: str, topic: str, partition: int) -> bytes:
    key = IndividualCommitKey(KEY_TYPE, group_id, topic, partition, 0, 0)
    return encode_bytes(key, 0)[: -_RANGE.size]


def decode_record(raw_key: bytes, raw_value: bytes | None) -> RangeRecord:
    """The record that :func:`encode_record` wrote.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    key = decode(IndividualCommitKey, 0, raw_key)
    if not 0 <= key.first_offset <= key.last_offset:
        raise MalformedMessage(f"a range of offsets {key.first_offset} to {key.last_offset}")
    where = (key.group, key.topic, key.partition, key.first_offset, key.last_offset)
    if raw_value is None:
        return RangeRecord(*where, written=False)
    if raw_value[:2] != VERSION.to_bytes(2, "big"):
        raise MalformedMessage(f"version {int.from_bytes(raw_value[:2], 'big')} of a range")
    value = decode(IndividualCommitValue, VERSION, raw_value, 2)
    return RangeRecord(*where, True, value.commit_timestamp)
