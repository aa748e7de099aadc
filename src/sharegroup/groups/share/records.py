"""The records of share groups in ``__consumer_offsets``: Kafka's coordinator key types 10 to 15.

Each class mirrors one of Kafka's ``ShareGroup*Key``/``ShareGroup*Value`` pairs, key fields first;
the shell encodes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeAlias
from uuid import UUID

from sharegroup.groups.records import (
    Assignment,
    CurrentMemberAssignment,
    GroupMetadata,
    MemberMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    Tombstone,
)

STABLE: Final = 0
"""The one member state that share groups have (Kafka's class MemberState): there is no revocation
handshake.
"""


class TopicPartitions(NamedTuple):
    """Partitions of one topic that have delivery state, or are about to have it or to lose it."""

    topic_id: UUID
    name: str
    partitions: tuple[int, ...]


class DeletingTopic(NamedTuple):
    """A topic whose delivery state is being deleted."""

    topic_id: UUID
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberMetadata(MemberMetadata):
    """Who a member is and what it subscribes to."""

    key_type: ClassVar[int] = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadata(GroupMetadata):
    """The group epoch, and the digest of its topics when it was bumped."""

    key_type: ClassVar[int] = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTargetAssignmentMetadata(TargetAssignmentMetadata):
    """The group epoch for which the target assignment was computed."""

    key_type: ClassVar[int] = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTargetAssignmentMember(TargetAssignmentMember):
    """What the assignor wants one member to have."""

    key_type: ClassVar[int] = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCurrentMemberAssignment(CurrentMemberAssignment):
    """What a member has been given, and under which epoch."""

    key_type: ClassVar[int] = 14
    assignment: Assignment
    state: int = STABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitionMetadata:
    """Which partitions have delivery state, which are about to have it, and the topics whose state
    is being deleted. A topic may be in two of these sets while an administrator and a member work
    on it.
    """

    key_type: ClassVar[int] = 15
    group_id: str
    initialized: tuple[TopicPartitions, ...]
    initializing: tuple[TopicPartitions, ...] = ()
    deleting: tuple[DeletingTopic, ...] = ()


ShareRecord: TypeAlias = (
    ShareMemberMetadata
    | ShareGroupMetadata
    | ShareTargetAssignmentMetadata
    | ShareTargetAssignmentMember
    | ShareCurrentMemberAssignment
    | StatePartitionMetadata
    | Tombstone
)
