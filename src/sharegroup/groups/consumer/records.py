"""The records of consumer groups in ``__consumer_offsets``: Kafka's coordinator key types 3, 5 to 8
and 16.

Each class mirrors one of Kafka's ``ConsumerGroup*Key``/``ConsumerGroup*Value`` pairs, key fields
first; the shell encodes them. Key type 4 is Kafka's before 4.1: its place is taken by the metadata
hash of key type 3, so it is read and not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias
from uuid import UUID

from sharegroup.cooperative.intervals import Intervals
from sharegroup.groups import records as shared
from sharegroup.groups.classic.records import ClassicRecord
from sharegroup.groups.records import Assignment, Tombstone

Held: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the epoch at which the member got it (KIP-1251). Ids and
partitions in rising order, no topic without a partition."""


Parts: TypeAlias = Mapping[UUID, Mapping[int, Intervals]]
"""The ranges of key hashes of the partitions that a member has in part (KIP-X). Ids and
partitions in rising order, no topic without a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMetadata:
    """Session timeout and protocols from the JoinGroup of a member that uses the classic
    protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) of each protocol, the preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata(shared.GroupMetadata):
    """The group epoch, and the digest of its topics when it was bumped."""

    key_type: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberMetadata(shared.MemberMetadata):
    """Who a member is and what it subscribes to."""

    key_type: ClassVar[int] = 5
    instance_id: str | None
    subscribed_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMetadata | None = None
    takes_ranges: bool = False
    cooperative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTargetAssignmentMetadata(shared.TargetAssignmentMetadata):
    """The group epoch for which the target assignment was computed."""

    key_type: ClassVar[int] = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTargetAssignmentMember(shared.TargetAssignmentMember):
    """What the assignor wants one member to have."""

    key_type: ClassVar[int] = 7
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCurrentMemberAssignment(shared.CurrentMemberAssignment):
    """What a member owns, what it must give back, and under which epoch. ``state`` is a
    ``ConsumerMemberState``, or the number of a state that is not known here."""

    key_type: ClassVar[int] = 8
    state: int
    assigned: Held
    revoking: Held
    assigned_parts: Parts = field(default_factory=dict)
    revoking_parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that a regular expression matches. ``version`` and ``timestamp_ms`` are 0 when
    written here: a broker that takes over resolves it anew.
    """

    key_type: ClassVar[int] = 16
    group_id: str
    regex: str
    topics: tuple[str, ...]
    version: int = 0
    timestamp_ms: int = 0


ConsumerRecord: TypeAlias = (
    ConsumerGroupMetadata
    | ConsumerMemberMetadata
    | ConsumerTargetAssignmentMetadata
    | ConsumerTargetAssignmentMember
    | ConsumerCurrentMemberAssignment
    | ResolvedRegex
    | Tombstone
)
"""A :class:`Tombstone` of key type 16 has the regular expression as its ``member_id``."""

WrittenRecord: TypeAlias = ConsumerRecord | ClassicRecord
"""What a change of a consumer group writes: a group may change its protocol."""


def plain(held: Held) -> Assignment:
    """The partitions without their epochs."""
    return {topic_id: tuple(partitions) for topic_id, partitions in held.items()}
