"""The records of share groups in ``__consumer_offsets``: Kafka's coordinator key types 10 to 15.

Each class mirrors one of Kafka's ``ShareGroup*Key``/``ShareGroup*Value`` pairs, key fields first;
the shell encodes them. A :class:`Tombstone` is a key without a value. The state of a group is the
fold of these records (``group.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeAlias
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic id; ids and partitions in rising order, no topic without a partition."""

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
class MemberMetadata:
    """Who a member is and what it subscribes to."""

    key_type: ClassVar[int] = 10
    group_id: str
    member_id: str
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """The group epoch, and the digest of its topics when it was bumped."""

    key_type: ClassVar[int] = 11
    group_id: str
    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMetadata:
    """The group epoch for which the target assignment was computed.

    ``timestamp_ms`` is 0 (Kafka's default, "long ago"): coordinator time does not survive a
    restart, so the first assignment after a restart never waits for the assignment interval.
    """

    key_type: ClassVar[int] = 12
    group_id: str
    assignment_epoch: int
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMember:
    """What the assignor wants one member to have."""

    key_type: ClassVar[int] = 13
    group_id: str
    member_id: str
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMemberAssignment:
    """What a member has been given, and under which epoch."""

    key_type: ClassVar[int] = 14
    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """Deletes the record with this key. ``member_id`` is None for key types without a member."""

    key_type: int
    group_id: str
    member_id: str | None = None


CoordinatorRecord: TypeAlias = (
    MemberMetadata
    | GroupMetadata
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentMemberAssignment
    | StatePartitionMetadata
    | Tombstone
)
