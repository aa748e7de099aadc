"""The state of one share group: the fold of its records.

Only :meth:`ShareGroup.apply` changes it, so a replay of the log rebuilds exactly this state.
:meth:`ShareGroup.records` returns records that rebuild all of it. A member's epoch is the
assignment epoch up to which the member has been told its partitions.

Invariants (:meth:`ShareGroup.check_invariants`), beside those of ``modern_group.py``: previous <
member epoch ≤ assignment epoch; partition lists ascend and are not empty; the subscription counts
agree with the members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, KeysView
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from sharegroup.groups.assignor import NAME
from sharegroup.groups.modern_group import GroupDescription, ModernGroup, RecordKinds, is_tidy
from sharegroup.groups.records import Assignment, Tombstone
from sharegroup.groups.share.records import (
    DeletingTopic,
    ShareCurrentMemberAssignment,
    ShareGroupMetadata,
    ShareMemberMetadata,
    ShareRecord,
    ShareTargetAssignmentMember,
    ShareTargetAssignmentMetadata,
    StatePartitionMetadata,
    TopicPartitions,
)


class ShareGroupState(StrEnum):
    """A share group is either empty or stable. Kafka calls a group that does not exist "Dead"."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMember:
    """One member; ``assignment`` has the partitions that it has been told to consume."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = -1
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSnapshot(GroupDescription[ShareGroupState, ShareGroupMember]):
    """A snapshot of a group, for ShareGroupDescribe, the console and tests."""

    initialized: tuple[TopicPartitions, ...]


class ShareGroup(ModernGroup[ShareGroupMember]):
    """One group; see the module."""

    __slots__ = ("_subscribers", "deleting", "initialized", "initializing")
    kinds = RecordKinds(
        ShareMemberMetadata,
        ShareGroupMetadata,
        ShareTargetAssignmentMetadata,
        ShareTargetAssignmentMember,
        ShareCurrentMemberAssignment,
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.initialized: dict[UUID, TopicPartitions] = {}
        self.initializing: dict[UUID, TopicPartitions] = {}
        self.deleting: dict[UUID, str] = {}
        self._subscribers: Counter[str] = Counter()

    @property
    def state(self) -> ShareGroupState:
        """Empty without members, else Stable."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def subscribed_topics(self) -> KeysView[str]:
        """Names that at least one member subscribes to."""
        return self._subscribers.keys()

    def assigned_partitions(self) -> dict[UUID, set[int]]:
        """Partitions that the target assignment gives to at least one member."""
        assigned: dict[UUID, set[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return assigned

    def describe(self) -> ShareGroupSnapshot:
        """The group as it is now."""
        return ShareGroupSnapshot(
            group_id=self.group_id,
            state=self.state,
            epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor=NAME,
            members=self.members_by_id(),
            initialized=tuple(self.initialized[topic_id] for topic_id in sorted(self.initialized)),
        )

    def records(self) -> Iterator[ShareRecord]:
        """Records that rebuild the whole group: the content of a rewritten log."""
        group_id = self.group_id
        for member in self.members.values():
            yield ShareMemberMetadata(
                group_id=group_id,
                member_id=member.member_id,
                rack_id=member.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topics=member.subscribed_topics,
            )
        yield from self.assignment_records()
        for member in self.members.values():
            yield ShareCurrentMemberAssignment(
                group_id=group_id,
                member_id=member.member_id,
                member_epoch=member.epoch,
                previous_member_epoch=member.previous_epoch,
                assignment=member.assignment,
            )
        if self.initialized or self.initializing or self.deleting:
            yield self.state_partitions()

    def state_partitions(self) -> StatePartitionMetadata:
        """The record of which partitions have delivery state."""
        return StatePartitionMetadata(
            group_id=self.group_id,
            initialized=tuple(sorted(self.initialized.values())),
            initializing=tuple(sorted(self.initializing.values())),
            deleting=tuple(sorted(DeletingTopic(*topic) for topic in self.deleting.items())),
        )

    def apply(self, record: ShareRecord) -> None:
        """Apply ``record`` to the state."""
        match record:
            case ShareMemberMetadata():
                self._subscribe(record)
            case ShareCurrentMemberAssignment():
                self._assign(record)
                return
            case StatePartitionMetadata():
                self.initialized = {topic.topic_id: topic for topic in record.initialized}
                self.initializing = {topic.topic_id: topic for topic in record.initializing}
                self.deleting = dict(record.deleting)
            case Tombstone(key_type=ShareMemberMetadata.key_type):
                self._forget(record.member_id or "")
            case Tombstone(key_type=ShareCurrentMemberAssignment.key_type):
                self._unassign(record.member_id or "")
            case Tombstone(key_type=StatePartitionMetadata.key_type):
                self.initialized, self.initializing, self.deleting = {}, {}, {}
            case _:
                self.fold(record)
        self.revision += 1

    def _member(self, member_id: str) -> ShareGroupMember:
        return self.members.get(member_id) or ShareGroupMember(member_id=member_id, assignment={})

    def _subscribe(self, record: ShareMemberMetadata) -> None:
        known = self._member(record.member_id)
        self._count(known.subscribed_topics, record.subscribed_topics)
        self.members[record.member_id] = replace(
            known,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            subscribed_topics=record.subscribed_topics,
        )

    def _count(self, before: Iterable[str], after: Iterable[str]) -> None:
        subscribers = self._subscribers
        subscribers.update(after)
        for name in before:
            subscribers[name] -= 1
            if not subscribers[name]:
                del subscribers[name]

    def _assign(self, record: ShareCurrentMemberAssignment) -> None:
        self.members[record.member_id] = replace(
            self._member(record.member_id),
            epoch=record.member_epoch,
            previous_epoch=record.previous_member_epoch,
            assignment=record.assignment,
        )

    def _forget(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.subscribed_topics, ())

    def _unassign(self, member_id: str) -> None:
        if member_id in self.members:
            self.members[member_id] = replace(
                self.members[member_id], epoch=0, previous_epoch=-1, assignment={}
            )

    def check_invariants(self) -> None:
        """Raise AssertionError where an invariant of the module does not hold."""
        for problem in self._problems():
            raise AssertionError(f"share group {self.group_id!r}: {problem}")

    def _problems(self) -> Iterator[str]:
        yield from self.problems()
        counted = Counter(n for member in self.members.values() for n in member.subscribed_topics)
        if counted != self._subscribers or 0 in self._subscribers.values():
            yield f"subscriptions are {counted}, not {self._subscribers}"
        for member in self.members.values():
            if not member.previous_epoch < member.epoch <= self.assignment_epoch:
                epochs = f"{member.previous_epoch} and {member.epoch}"
                yield f"member {member.member_id} has the epochs {epochs}"
            if not is_tidy(member.assignment):
                yield f"member {member.member_id} has the assignment {member.assignment}"
