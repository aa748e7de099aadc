"""Records of ``__consumer_offsets`` for share groups: coordinator key types 10 to 15.

Source: the ``ShareGroup*Key.json`` and ``ShareGroup*Value.json`` message definitions of Apache
Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from sharegroup.groups.records import Assignment, Tombstone
from sharegroup.groups.share import records as core
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import Message, array, i8, i16, i32, i64, message, string, uuid

NOT_FLEXIBLE = 32_768


@message
class GroupKey(Message):
    """Key types 11, 12 and 15."""

    FLEXIBLE = NOT_FLEXIBLE

    key_type: int = i16()
    group_id: str = string()


@message
class MemberKey(Message):
    """Key types 10, 13 and 14."""

    FLEXIBLE = NOT_FLEXIBLE

    key_type: int = i16()
    group_id: str = string()
    member_id: str = string()


@message
class MemberMetadataValue(Message):
    """Key type 10."""

    rack_id: str | None = string(default=None, nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")


@message
class GroupMetadataValue(Message):
    """Key type 11."""

    epoch: int = i32()
    metadata_hash: int = i64()


@message
class TargetAssignmentMetadataValue(Message):
    """Key type 12."""

    assignment_epoch: int = i32()
    assignment_timestamp: int = i64(tag=0)


@message
class TopicPartitionsValue(Message):
    """Partitions of a topic, by id."""

    topic_id: UUID = uuid()
    partitions: Sequence[int] = array("i32")


@message
class TargetAssignmentMemberValue(Message):
    """Key type 13."""

    topic_partitions: Sequence[TopicPartitionsValue] = array(TopicPartitionsValue)


@message
class CurrentMemberAssignmentValue(Message):
    """Key type 14."""

    member_epoch: int = i32()
    previous_member_epoch: int = i32()
    state: int = i8()
    assigned_partitions: Sequence[TopicPartitionsValue] = array(TopicPartitionsValue)


@message
class TopicPartitionsInfo(Message):
    """Partitions of a topic, by id and name."""

    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: Sequence[int] = array("i32")


@message
class TopicInfo(Message):
    """A topic, by id and name."""

    topic_id: UUID = uuid()
    topic_name: str = string()


@message
class StatePartitionMetadataValue(Message):
    """Key type 15."""

    initializing_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: Sequence[TopicInfo] = array(TopicInfo)


MEMBER_KEYS = (10, 13, 14)
VALUE_VERSION: Final = b"\0\0"
"""The version of a record's value, before the value."""


def encode_record(record: core.ShareRecord) -> tuple[bytes, bytes | None]:
    """(key, value) of a membership record; a tombstone has no value."""
    member_id = getattr(record, "member_id", None)
    key: Message
    if record.key_type in MEMBER_KEYS:
        key = MemberKey(record.key_type, record.group_id, member_id or "")
    else:
        key = GroupKey(record.key_type, record.group_id)
    raw_key = encode_bytes(key, 0)
    if isinstance(record, Tombstone):
        return raw_key, None
    return raw_key, VALUE_VERSION + encode_bytes(_value(record), 0)


def _value(record: core.ShareRecord) -> Message:
    match record:
        case core.ShareMemberMetadata():
            return MemberMetadataValue(
                record.rack_id, record.client_id, record.client_host, record.subscribed_topics
            )
        case core.ShareGroupMetadata():
            return GroupMetadataValue(record.epoch, record.metadata_hash)
        case core.ShareTargetAssignmentMetadata():
            return TargetAssignmentMetadataValue(record.assignment_epoch, record.timestamp_ms)
        case core.ShareTargetAssignmentMember():
            return TargetAssignmentMemberValue(assigned(record.assignment))
        case core.ShareCurrentMemberAssignment():
            return CurrentMemberAssignmentValue(
                record.member_epoch,
                record.previous_member_epoch,
                record.state,
                assigned(record.assignment),
            )
        case core.StatePartitionMetadata():
            return StatePartitionMetadataValue(
                [TopicPartitionsInfo(*topic) for topic in record.initializing],
                [TopicPartitionsInfo(*topic) for topic in record.initialized],
                [TopicInfo(*topic) for topic in record.deleting],
            )
    raise AssertionError(f"not a membership record with a value: {record}")


def assigned(assignment: Assignment) -> list[TopicPartitionsValue]:
    """An assignment as a value has it."""
    return [TopicPartitionsValue(topic_id, parts) for topic_id, parts in assignment.items()]


def assignment(values: Sequence[TopicPartitionsValue]) -> Assignment:
    """An assignment from a value."""
    return {value.topic_id: tuple(value.partitions) for value in values}


def _infos(values: Sequence[TopicPartitionsInfo]) -> tuple[core.TopicPartitions, ...]:
    return tuple(
        core.TopicPartitions(v.topic_id, v.topic_name, tuple(v.partitions)) for v in values
    )


def decode_record(raw_key: bytes, raw_value: bytes | None) -> core.ShareRecord | None:
    """The record that :func:`encode_record` (or Apache Kafka) wrote; None for key types of other
    groups.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    head = decode(GroupKey, 0, raw_key)
    if head.key_type not in _DECODERS:
        return None
    member_id = None
    if head.key_type in MEMBER_KEYS:
        member_id = decode(MemberKey, 0, raw_key).member_id
    if raw_value is None:
        return Tombstone(key_type=head.key_type, group_id=head.group_id, member_id=member_id)
    return _DECODERS[head.key_type](head.group_id, member_id or "", raw_value)


def _member_metadata(group_id: str, member_id: str, raw: bytes) -> core.ShareRecord:
    value = decode(MemberMetadataValue, 0, raw, 2)
    return core.ShareMemberMetadata(
        group_id=group_id,
        member_id=member_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topics=tuple(value.subscribed_topic_names),
    )


def _group_metadata(group_id: str, _: str, raw: bytes) -> core.ShareRecord:
    value = decode(GroupMetadataValue, 0, raw, 2)
    return core.ShareGroupMetadata(
        group_id=group_id, epoch=value.epoch, metadata_hash=value.metadata_hash
    )


def _target_metadata(group_id: str, _: str, raw: bytes) -> core.ShareRecord:
    value = decode(TargetAssignmentMetadataValue, 0, raw, 2)
    return core.ShareTargetAssignmentMetadata(
        group_id=group_id,
        assignment_epoch=value.assignment_epoch,
        timestamp_ms=value.assignment_timestamp,
    )


def _target_member(group_id: str, member_id: str, raw: bytes) -> core.ShareRecord:
    value = decode(TargetAssignmentMemberValue, 0, raw, 2)
    return core.ShareTargetAssignmentMember(
        group_id=group_id, member_id=member_id, assignment=assignment(value.topic_partitions)
    )


def _current_assignment(group_id: str, member_id: str, raw: bytes) -> core.ShareRecord:
    value = decode(CurrentMemberAssignmentValue, 0, raw, 2)
    return core.ShareCurrentMemberAssignment(
        group_id=group_id,
        member_id=member_id,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assignment=assignment(value.assigned_partitions),
        state=value.state,
    )


def _state_partitions(group_id: str, _: str, raw: bytes) -> core.ShareRecord:
    value = decode(StatePartitionMetadataValue, 0, raw, 2)
    return core.StatePartitionMetadata(
        group_id=group_id,
        initialized=_infos(value.initialized_topics),
        initializing=_infos(value.initializing_topics),
        deleting=tuple(
            core.DeletingTopic(topic.topic_id, topic.topic_name) for topic in value.deleting_topics
        ),
    )


_DECODERS: dict[int, Callable[[str, str, bytes], core.ShareRecord]] = {
    10: _member_metadata,
    11: _group_metadata,
    12: _target_metadata,
    13: _target_member,
    14: _current_assignment,
    15: _state_partitions,
}
KEY_PREFIXES: Final = frozenset(key_type.to_bytes(2, "big") for key_type in _DECODERS)
"""Prefixes of the keys of these records; other kinds of group have other prefixes."""
