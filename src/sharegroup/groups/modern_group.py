"""What share groups and consumer groups remember alike: epochs, members and the target assignment
(KIP-848; Kafka class ModernGroup).

* ``epoch``: bumped when something changes that the target assignment depends on; 1 at first;
* ``assignment_epoch``: the epoch for which the target assignment was computed; 0 before there is
  one;
* a member's ``epoch``: the assignment epoch up to which the member follows.

Invariants (:meth:`ModernGroup.problems`): assignment epoch ≤ group epoch; targets exist only for
members; an empty group has no assignment pending; the partition lists of targets ascend and are not
empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar
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
from sharegroup.model.errors import UnknownMemberId

FIRST_EPOCH: Final = 1
"""The epoch of a group that nobody has joined."""

JOIN_EPOCH: Final = 0
"""A member that joins names this epoch."""

LEAVE_EPOCH: Final = -1
"""A member that leaves names this epoch."""

M = TypeVar("M")
S = TypeVar("S")


class RecordKinds(NamedTuple):
    """The classes of the records that a type of group writes."""

    member: type[MemberMetadata]
    group: type[GroupMetadata]
    target_epoch: type[TargetAssignmentMetadata]
    target: type[TargetAssignmentMember]
    current: type[CurrentMemberAssignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription(Generic[S, M]):
    """A snapshot of a group with a state ``S`` and members ``M``."""

    group_id: str
    state: S
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[M, ...]


class ModernGroup(ABC, Generic[M]):
    """The part of a group that the module describes. ``revision`` counts the changes that may
    affect an assignment.
    """

    __slots__ = (
        "assignment_epoch",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "revision",
        "targets",
    )
    kinds: ClassVar[RecordKinds]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, M] = {}
        self.targets: dict[str, Assignment] = {}
        self.revision = 0

    @property
    def is_pending(self) -> bool:
        """Whether a new target assignment waits to be computed."""
        return self.assignment_epoch < self.epoch

    def members_by_id(self) -> tuple[M, ...]:
        """The members in the order of their ids."""
        return tuple(self.members[member_id] for member_id in sorted(self.members))

    def member(self, member_id: str) -> M:
        """A member. Raises UnknownMemberId if there is no such member."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    @abstractmethod
    def subscribed_topics(self) -> Collection[str]:
        """Names that at least one member subscribes to."""

    @abstractmethod
    def records(self) -> Iterator[Any]:
        """Records that rebuild the whole group: the content of a rewritten log."""

    @abstractmethod
    def apply(self, record: Any) -> None:
        """Apply ``record`` to the state."""

    def target_record(self, member_id: str) -> Any:
        """The record of a member's target."""
        return self.kinds.target(
            group_id=self.group_id, member_id=member_id, assignment=self.targets[member_id]
        )

    def assignment_records(self) -> Iterator[Any]:
        """Records that rebuild the epochs and the target assignment."""
        group_id, kinds = self.group_id, self.kinds
        yield kinds.group(group_id=group_id, epoch=self.epoch, metadata_hash=self.metadata_hash)
        yield from (self.target_record(member_id) for member_id in self.targets)
        yield kinds.target_epoch(group_id=group_id, assignment_epoch=self.assignment_epoch)

    def fold(self, record: Any) -> None:
        """Apply a record of the group's epochs or of the target assignment, or its tombstone; other
        records change nothing here.
        """
        match record:
            case GroupMetadata():
                self.epoch = record.epoch
                self.metadata_hash = record.metadata_hash
            case TargetAssignmentMetadata():
                self.assignment_epoch = record.assignment_epoch
            case TargetAssignmentMember():
                self.targets[record.member_id] = record.assignment
            case Tombstone(key_type=self.kinds.target.key_type):
                self.targets.pop(record.member_id or "", None)
            case Tombstone(key_type=self.kinds.target_epoch.key_type):
                self.assignment_epoch = 0

    def problems(self) -> Iterator[str]:
        """The invariants of the module that do not hold."""
        if self.assignment_epoch > self.epoch:
            yield f"assignment epoch {self.assignment_epoch} is ahead of the group's {self.epoch}"
        if not self.members and self.assignment_epoch not in (0, self.epoch):
            yield "an assignment is pending for nobody"
        if not self.targets.keys() <= self.members.keys():
            yield "a target assignment has no member"
        for member_id, target in self.targets.items():
            if not is_tidy(target):
                yield f"member {member_id} has the target {target}"


def is_tidy(assignment: Mapping[UUID, Iterable[int]]) -> bool:
    """Whether partition lists ascend and are not empty."""
    lists = [list(held) for held in assignment.values()]
    return all(held and held == sorted(set(held)) for held in lists)
