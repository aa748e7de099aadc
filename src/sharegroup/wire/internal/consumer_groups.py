"""Records of ``__consumer_offsets`` for consumer groups: coordinator key types 3 to 8 and 16.

Source: the ``ConsumerGroup*Key.json`` and ``ConsumerGroup*Value.json`` message definitions of
Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from sharegroup.groups.consumer import records as core
from sharegroup.groups.records import Tombstone
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.internal.groups import (
    VALUE_VERSION,
    GroupKey,
    MemberKey,
    TargetAssignmentMetadataValue,
)
from sharegroup.wire.messages.ranges import PartitionRanges, parts_of, ranges_of
from sharegroup.wire.schema import (
    Message,
    array,
    boolean,
    data,
    i8,
    i32,
    i64,
    message,
    string,
    struct,
    uuid,
)

PARTITION_METADATA: Final = 4
"""Kafka's record before 4.1 of the topics that a group subscribes to. It is read and not kept."""


@message
class GroupMetadataValue(Message):
    """Key type 3."""

    epoch: int = i32()
    metadata_hash: int = i64(tag=0)


@message
class ClassicProtocolValue(Message):
    """A protocol that a member with the classic protocol supports."""

    name: str = string()
    metadata: bytes = data()


@message
class ClassicMemberMetadataValue(Message):
    """Session timeout and protocols of a member with the classic protocol."""

    session_timeout_ms: int = i32()
    supported_protocols: Sequence[ClassicProtocolValue] = array(ClassicProtocolValue)


@message
class MemberMetadataValue(Message):
    """Key type 5."""

    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")
    subscribed_topic_regex: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = i32(default=-1)
    server_assignor: str | None = string(default=None, nullable="0+")
    classic_member_metadata: ClassicMemberMetadataValue | tuple[()] | None = struct(
        ClassicMemberMetadataValue, nullable="0+", tag=0, default=()
    )
    """Kafka takes a record without this field for one of a member with the classic protocol. So
    null, a member with the consumer protocol, is always written."""
    takes_key_ranges: bool = boolean(tag=9000)
    """Ours: the member takes parts of partitions (KIP-X)."""
    cooperative: bool = boolean(tag=9001)
    """Ours: the member fetches from shared partitions in turns with other members."""


@message
class AssignedPartitionsValue(Message):
    """Partitions of a topic that the assignor wants a member to have."""

    topic_id: UUID = uuid()
    partitions: Sequence[int] = array("i32")
    key_ranges: Sequence[PartitionRanges] = array(PartitionRanges, tag=9000)
    """Ours: the ranges of hashes of the partitions that the member shall have in part (KIP-X)."""


@message
class TargetAssignmentMemberValue(Message):
    """Key type 7."""

    topic_partitions: Sequence[AssignedPartitionsValue] = array(AssignedPartitionsValue)


@message
class HeldPartitionsValue(Message):
    """Partitions of a topic that a member owns, and the epochs at which it got them."""

    topic_id: UUID = uuid()
    partitions: Sequence[int] = array("i32")
    assignment_epochs: Sequence[int] | None = array("i32", default=None, nullable="0+", tag=0)
    """As many as partitions; null from Kafka before 4.2."""
    key_ranges: Sequence[PartitionRanges] = array(PartitionRanges, tag=9000)
    """Ours: the ranges of hashes of the partitions that the member owns in part (KIP-X)."""


@message
class CurrentMemberAssignmentValue(Message):
    """Key type 8."""

    member_epoch: int = i32()
    previous_member_epoch: int = i32()
    state: int = i8()
    assigned_partitions: Sequence[HeldPartitionsValue] = array(HeldPartitionsValue)
    partitions_pending_revocation: Sequence[HeldPartitionsValue] = array(HeldPartitionsValue)


@message
class RegularExpressionValue(Message):
    """Key type 16."""

    topics: Sequence[str] = array("string")
    version: int = i64()
    timestamp: int = i64()


MEMBER_KEYS: Final = (5, 7, 8, 16)
"""Key types with a second text: a member id, or a regular expression."""


def encode_record(record: core.ConsumerRecord) -> tuple[bytes, bytes | None]:
    """(key, value) of a record of a consumer group; a tombstone has no value."""
    key: Message
    if record.key_type in MEMBER_KEYS:
        name = record.regex if isinstance(record, core.ResolvedRegex) else _member_id(record)
        key = MemberKey(record.key_type, record.group_id, name)
    else:
        key = GroupKey(record.key_type, record.group_id)
    raw_key = encode_bytes(key, 0)
    if isinstance(record, Tombstone):
        return raw_key, None
    return raw_key, VALUE_VERSION + encode_bytes(_value(record), 0)


def _member_id(record: core.ConsumerRecord) -> str:
    return getattr(record, "member_id", None) or ""


def _value(record: core.ConsumerRecord) -> Message:
    match record:
        case core.ConsumerGroupMetadata():
            return GroupMetadataValue(record.epoch, record.metadata_hash)
        case core.ConsumerMemberMetadata():
            return _member_metadata_value(record)
        case core.ConsumerTargetAssignmentMetadata():
            return TargetAssignmentMetadataValue(record.assignment_epoch, record.timestamp_ms)
        case core.ConsumerTargetAssignmentMember():
            return TargetAssignmentMemberValue(
                [
                    AssignedPartitionsValue(
                        topic_id, list(partitions), ranges_of(record.parts.get(topic_id, {}))
                    )
                    for topic_id, partitions in record.assignment.items()
                ]
            )
        case core.ConsumerCurrentMemberAssignment():
            return CurrentMemberAssignmentValue(
                record.member_epoch,
                record.previous_member_epoch,
                record.state,
                _held_values(record.assigned, record.assigned_parts),
                _held_values(record.revoking, record.revoking_parts),
            )
        case core.ResolvedRegex():
            return RegularExpressionValue(record.topics, record.version, record.timestamp_ms)
    raise AssertionError(f"not a record of a consumer group with a value: {record}")


def _member_metadata_value(record: core.ConsumerMemberMetadata) -> MemberMetadataValue:
    classic = record.classic
    return MemberMetadataValue(
        record.instance_id,
        record.rack_id,
        record.client_id,
        record.client_host,
        record.subscribed_topics,
        record.subscribed_regex,
        record.rebalance_timeout_ms,
        record.server_assignor,
        None
        if classic is None
        else ClassicMemberMetadataValue(
            classic.session_timeout_ms,
            [ClassicProtocolValue(name, metadata) for name, metadata in classic.protocols],
        ),
        record.takes_ranges,
        record.cooperative,
    )


def _held_values(held: core.Held, parts: core.Parts) -> list[HeldPartitionsValue]:
    return [
        HeldPartitionsValue(
            topic_id, list(epochs), list(epochs.values()), ranges_of(parts.get(topic_id, {}))
        )
        for topic_id, epochs in held.items()
    ]


def _parts(values: Iterable[HeldPartitionsValue | AssignedPartitionsValue]) -> core.Parts:
    """The parts of partitions; a range that cannot be makes the record malformed."""
    try:
        found = {
            value.topic_id: parts_of(value.key_ranges, value.partitions)
            for value in sorted(values, key=lambda value: value.topic_id)
            if value.key_ranges
        }
    except ValueError as error:
        raise MalformedMessage(str(error)) from error
    return {topic_id: parts for topic_id, parts in found.items() if parts}


def _held(values: Sequence[HeldPartitionsValue], epoch: int) -> core.Held:
    """``epoch`` stands for epochs that the record lacks."""
    held: dict[UUID, dict[int, int]] = {}
    for value in values:
        epochs = value.assignment_epochs
        if epochs is None or len(epochs) != len(value.partitions):
            epochs = [epoch] * len(value.partitions)
        held[value.topic_id] = dict(sorted(zip(value.partitions, epochs, strict=True)))
    return {topic_id: held[topic_id] for topic_id in sorted(held)}


def decode_record(raw_key: bytes, raw_value: bytes | None) -> core.ConsumerRecord | None:
    """The record that :func:`encode_record` (or Apache Kafka) wrote; None for a record that is not
    kept, and for key types of other groups.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    head = decode(GroupKey, 0, raw_key)
    if head.key_type not in _DECODERS:
        return None
    name = decode(MemberKey, 0, raw_key).member_id if head.key_type in MEMBER_KEYS else None
    if raw_value is None:
        return Tombstone(key_type=head.key_type, group_id=head.group_id, member_id=name)
    return _DECODERS[head.key_type](head.group_id, name or "", raw_value)


def _group_metadata(group_id: str, _: str, raw: bytes) -> core.ConsumerRecord:
    value = decode(GroupMetadataValue, 0, raw, 2)
    return core.ConsumerGroupMetadata(
        group_id=group_id, epoch=value.epoch, metadata_hash=value.metadata_hash
    )


def _member_metadata(group_id: str, member_id: str, raw: bytes) -> core.ConsumerRecord:
    value = decode(MemberMetadataValue, 0, raw, 2)
    classic = value.classic_member_metadata
    if isinstance(classic, tuple):
        classic = ClassicMemberMetadataValue()
    return core.ConsumerMemberMetadata(
        group_id=group_id,
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topics=tuple(sorted(set(value.subscribed_topic_names))),
        subscribed_regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        takes_ranges=value.takes_key_ranges,
        cooperative=value.cooperative,
        classic=None
        if classic is None
        else core.ClassicMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple((p.name, bytes(p.metadata)) for p in classic.supported_protocols),
        ),
    )


def _target_metadata(group_id: str, _: str, raw: bytes) -> core.ConsumerRecord:
    value = decode(TargetAssignmentMetadataValue, 0, raw, 2)
    return core.ConsumerTargetAssignmentMetadata(
        group_id=group_id,
        assignment_epoch=value.assignment_epoch,
        timestamp_ms=value.assignment_timestamp,
    )


def _target_member(group_id: str, member_id: str, raw: bytes) -> core.ConsumerRecord:
    value = decode(TargetAssignmentMemberValue, 0, raw, 2)
    target = {each.topic_id: each.partitions for each in value.topic_partitions}
    return core.ConsumerTargetAssignmentMember(
        group_id=group_id,
        member_id=member_id,
        assignment={t: tuple(sorted(target[t])) for t in sorted(target) if target[t]},
        parts=_parts(value.topic_partitions),
    )


def _current_assignment(group_id: str, member_id: str, raw: bytes) -> core.ConsumerRecord:
    value = decode(CurrentMemberAssignmentValue, 0, raw, 2)
    return core.ConsumerCurrentMemberAssignment(
        group_id=group_id,
        member_id=member_id,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=_held(value.assigned_partitions, value.member_epoch),
        revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        assigned_parts=_parts(value.assigned_partitions),
        revoking_parts=_parts(value.partitions_pending_revocation),
    )


def _resolved_regex(group_id: str, regex: str, raw: bytes) -> core.ConsumerRecord:
    value = decode(RegularExpressionValue, 0, raw, 2)
    return core.ResolvedRegex(group_id=group_id, regex=regex, topics=tuple(sorted(value.topics)))


_DECODERS: Final[dict[int, Callable[[str, str, bytes], core.ConsumerRecord]]] = {
    3: _group_metadata,
    5: _member_metadata,
    6: _target_metadata,
    7: _target_member,
    8: _current_assignment,
    16: _resolved_regex,
}
KEY_PREFIXES: Final = frozenset(
    key_type.to_bytes(2, "big") for key_type in (*_DECODERS, PARTITION_METADATA)
)
"""Prefixes of the keys of these records; other kinds of group have other prefixes."""
