"""A member of a consumer group, and the groups' states (Kafka classes ConsumerGroupMember and
MemberState).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from uuid import UUID

from sharegroup.cooperative.intervals import Intervals
from sharegroup.groups.consumer.parts import Key, parts_held
from sharegroup.groups.consumer.records import ClassicMetadata, Held, Parts
from sharegroup.groups.modern_group import GroupDescription
from sharegroup.groups.records import Assignment


class ConsumerMemberState(IntEnum):
    """How far a member is on its way to the target assignment. The numbers stand in records."""

    STABLE = 0
    """The member has all partitions that its epoch gives it."""
    UNREVOKED_PARTITIONS = 1
    """The member must give partitions back first."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members must give back."""
    UNKNOWN = 127
    """A later version wrote a state that is not known here."""

    @classmethod
    def of(cls, number: int) -> ConsumerMemberState:
        """The state of that number, or UNKNOWN."""
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


class ConsumerGroupState(StrEnum):
    """The states of a consumer group, as Kafka names them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member. It owns ``assigned`` and, until it says otherwise, ``revoking``. Of a partition
    in ``assigned_parts`` or ``revoking_parts`` it owns only the hashes there."""

    member_id: str
    instance_id: str | None = None
    """The name of a static member."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    takes_ranges: bool = False
    """Whether it may be given a part of a partition's keys (KIP-X)."""
    cooperative: bool = False
    """With ``takes_ranges``: members that share a partition fetch from it in turns."""
    epoch: int = 0
    previous_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    assigned_parts: Parts = field(default_factory=dict)
    revoking_parts: Parts = field(default_factory=dict)

    def without_partitions(self) -> ConsumerMember:
        """The member as it is before it is given partitions."""
        return replace(
            self,
            epoch=0,
            state=ConsumerMemberState.STABLE,
            assigned={},
            revoking={},
            assigned_parts={},
            revoking_parts={},
        )

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has all partitions that the assignment of this epoch gives it."""
        return self.state is ConsumerMemberState.STABLE and self.epoch == epoch

    def owns(self, topic_id: UUID, partition: int) -> bool:
        """Whether it owns a partition, or has yet to give it back."""
        return partition in self.assigned.get(topic_id, ()) or partition in self.revoking.get(
            topic_id, ()
        )

    def parts_held(self) -> Iterator[tuple[Key, Intervals]]:
        """The partitions that it owns or has yet to give back, each once, with the part it has."""
        return parts_held(
            (self.assigned, self.assigned_parts), (self.revoking, self.revoking_parts)
        )

    def held(self) -> Assignment:
        """The partitions that it owns or has yet to give back."""
        topics = sorted({*self.assigned, *self.revoking})
        return {
            topic_id: tuple(
                sorted({*self.assigned.get(topic_id, ()), *self.revoking.get(topic_id, ())})
            )
            for topic_id in topics
        }

    def epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch at which it got a partition; None if it does not own it."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSnapshot(GroupDescription[ConsumerGroupState, ConsumerMember]):
    """A snapshot of a group, for ConsumerGroupDescribe, the console and tests."""

    targets: dict[str, Assignment]
    target_parts: dict[str, Parts] = field(default_factory=dict)
