"""What members ask of a classic group, and what it answers. Times are in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sharegroup.groups.classic.records import ClassicRecord
from sharegroup.model.errors import KafkaError


class Now(NamedTuple):
    """The time of a call: deadlines use the monotonic clock, records the wall clock."""

    monotonic_ms: int
    wall_ms: int


class Protocol(NamedTuple):
    """A way of assigning that a member supports, and its metadata for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup. ``new_member_id`` is the id that a member without one gets. No two protocols have
    one name."""

    group_id: str
    member_id: str
    new_member_id: str
    protocol_type: str
    protocols: Sequence[Protocol]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    id_required: bool = True
    """From version 4 on a new member is only told its id, and joins with it."""
    can_skip_assignment: bool = True
    """From version 9 on a leader that comes back may be told not to assign."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a join; only the leader gets ``members``."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class Refused(NamedTuple):
    """A join or sync that failed. ``member_id`` is what a join's answer names."""

    error: KafkaError
    member_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """SyncGroup. Only the leader sends assignments, as (member id, assignment)."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


class Synced(NamedTuple):
    """The answer to a sync: what the leader assigned to the member."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class ClassicAnswer(NamedTuple):
    """The one answer to the join or sync of a token."""

    token: int
    result: Joined | Synced | Refused


class Effects(NamedTuple):
    """What a call leads to: records to write, and answers to send now."""

    records: Sequence[ClassicRecord] = ()
    answers: Sequence[ClassicAnswer] = ()


class LeavingMember(NamedTuple):
    """One member of a LeaveGroup; an administrator names only the instance."""

    member_id: str
    instance_id: str | None = None


class LeftMember(NamedTuple):
    """What became of one member of a LeaveGroup."""

    member: LeavingMember
    error: KafkaError | None


class DescribedClassicMember(NamedTuple):
    """A member of a described group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A described group. Protocol and metadata are known only while the group is stable."""

    state: str
    generation: int
    leader: str | None
    protocol_type: str
    protocol_name: str
    members: Sequence[DescribedClassicMember]


class Settings(NamedTuple):
    """``group.max.size`` and ``group.initial.rebalance.delay.ms``. A rebalance of at least
    ``quiet_members_min`` members waits until no more members come: a smaller one is quick."""

    size_max: int
    initial_rebalance_delay_ms: int
    quiet_members_min: int = 8
