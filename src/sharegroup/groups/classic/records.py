"""The record of a classic group in ``__consumer_offsets``: Kafka's coordinator key type 2.

One record holds the whole group (Kafka's ``GroupMetadataKey`` and ``GroupMetadataValue``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberRecord:
    """A member, with its metadata for the chosen protocol. Timeouts are in milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupRecord:
    """A generation of a group. ``since_ms`` is the wall-clock time of its last change of state, or
    None."""

    group_id: str
    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    since_ms: int | None
    members: tuple[ClassicMemberRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicTombstone:
    """Deletes the group."""

    group_id: str


ClassicRecord: TypeAlias = ClassicGroupRecord | ClassicTombstone
