"""What the records of share groups and of consumer groups in ``__consumer_offsets`` have in common.

The types of group write these records under key types of their own (``share/records.py``,
``consumer/records.py``). A :class:`Tombstone` is a key without a value. The state of a group is the
fold of its records (``modern_group.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic id; ids and partitions in rising order, no topic without a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """Who a member is and what it subscribes to."""

    key_type: ClassVar[int]
    group_id: str
    member_id: str
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """The group epoch, and the digest of its topics when it was bumped."""

    key_type: ClassVar[int]
    group_id: str
    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMetadata:
    """The group epoch for which the target assignment was computed.

    ``timestamp_ms`` is 0 (Kafka's default, "long ago"): coordinator time does not survive a
    restart, so the first assignment after a restart never waits for the assignment interval.
    """

    key_type: ClassVar[int]
    group_id: str
    assignment_epoch: int
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMember:
    """What the assignor wants one member to have."""

    key_type: ClassVar[int]
    group_id: str
    member_id: str
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMemberAssignment:
    """What a member has, and under which epoch."""

    key_type: ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """Deletes the record with this key. ``member_id`` is None for key types without a member."""

    key_type: int
    group_id: str
    member_id: str | None = None
