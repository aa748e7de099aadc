"""Records of ``__consumer_offsets`` for classic groups: coordinator key type 2.

Source: ``GroupMetadataKey.json`` and ``GroupMetadataValue.json`` of Apache Kafka 4.4. Values of all
versions are read. Version 3 is written, as Kafka does: brokers before version 4 read it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.groups.classic import records as core
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.codec import decode, encode, encode_bytes
from sharegroup.wire.schema import Message, array, data, i16, i32, i64, message, string

KEY_TYPE: Final = 2
KEY_PREFIX: Final = KEY_TYPE.to_bytes(2, "big")
WRITTEN_VERSION: Final = 3
VERSION_MAX: Final = 4
UNKNOWN: Final = -1
"""A time that an older version of the record does not have."""


@message
class GroupMetadataKey(Message):
    """Key type 2."""

    FLEXIBLE = 32_768

    key_type: int = i16()
    group: str = string()


@message
class MemberMetadata(Message):
    """A member of a classic group, as GroupMetadataValue has it."""

    FLEXIBLE = 4

    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = i32("1+", default=UNKNOWN)
    session_timeout: int = i32()
    subscription: bytes = data()
    assignment: bytes = data()


@message
class GroupMetadataValue(Message):
    """The value, versions 0-4."""

    FLEXIBLE = 4

    protocol_type: str = string()
    generation: int = i32()
    protocol: str | None = string(default=None, nullable="0+")
    leader: str | None = string(default=None, nullable="0+")
    current_state_timestamp: int = i64("2+", default=UNKNOWN)
    members: Sequence[MemberMetadata] = array(MemberMetadata)


def encode_record(record: core.ClassicRecord) -> tuple[bytes, tuple[bytes, ...] | None]:
    """(key, value in pieces) of a record; a tombstone has no value. The metadata of members may be
    hundreds of megabytes, and is not copied.
    """
    key = encode_bytes(GroupMetadataKey(KEY_TYPE, record.group_id), 0)
    if isinstance(record, core.ClassicTombstone):
        return key, None
    value = GroupMetadataValue(
        record.protocol_type,
        record.generation,
        record.protocol_name,
        record.leader,
        UNKNOWN if record.since_ms is None else record.since_ms,
        [
            MemberMetadata(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                m.subscription,
                m.assignment,
            )
            for m in record.members
        ],
    )
    return key, (WRITTEN_VERSION.to_bytes(2, "big"), *encode(value, WRITTEN_VERSION))


def decode_record(raw_key: bytes, raw_value: bytes | None) -> core.ClassicRecord:
    """The record that :func:`encode_record` or Apache Kafka wrote.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    group_id = decode(GroupMetadataKey, 0, raw_key).group
    if raw_value is None:
        return core.ClassicTombstone(group_id=group_id)
    version = int.from_bytes(raw_value[:2], "big")
    if len(raw_value) < 2 or version > VERSION_MAX:
        raise MalformedMessage(f"a group record of version {version}")
    value = decode(GroupMetadataValue, version, raw_value, 2)
    since_ms = value.current_state_timestamp
    return core.ClassicGroupRecord(
        group_id=group_id,
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol_name=value.protocol,
        leader=value.leader,
        since_ms=None if since_ms == UNKNOWN else since_ms,
        members=tuple(_member(member) for member in value.members),
    )


def _member(value: MemberMetadata) -> core.ClassicMemberRecord:
    """A member; before version 1 the rebalance timeout was the session timeout."""
    rebalance_ms = value.rebalance_timeout
    return core.ClassicMemberRecord(
        member_id=value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.session_timeout if rebalance_ms == UNKNOWN else rebalance_ms,
        session_timeout_ms=value.session_timeout,
        subscription=value.subscription,
        assignment=value.assignment,
    )
