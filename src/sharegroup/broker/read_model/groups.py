"""Consumer groups and classic groups as they look now, and a list of the groups of all types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sharegroup.broker.coordination.classic_groups_view import ClassicGroupsView
from sharegroup.broker.coordination.consumer_groups_view import ConsumerGroupsView
from sharegroup.broker.coordination.group_registry import GroupRegistry, GroupType
from sharegroup.broker.topics import Topics
from sharegroup.cooperative.intervals import Intervals
from sharegroup.groups.classic.requests import Description
from sharegroup.groups.consumer.member import ConsumerGroupSnapshot, ConsumerMember
from sharegroup.groups.consumer.records import Parts, plain
from sharegroup.groups.records import Assignment
from sharegroup.model.errors import GroupIdNotFound


class GroupLine(NamedTuple):
    """A group in a list.

    Attributes:
        protocol_type: of a classic group the type that its members name, of other groups the name
            of the group's type.
    """

    group_id: str
    type: GroupType
    state: str
    protocol_type: str


class AssignedTopicView(NamedTuple):
    """Partitions of an existing topic that a member has. Of a partition in ``key_ranges`` it has
    only the hashes there (KIP-X)."""

    topic_id: UUID
    topic: str
    partitions: tuple[int, ...]
    key_ranges: Mapping[int, Intervals]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberView:
    """A member of a consumer group; ``target`` is what the group means it to have."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    classic: bool
    """The member uses the classic protocol."""
    assignment: tuple[AssignedTopicView, ...]
    target: tuple[AssignedTopicView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupView:
    """A consumer group (KIP-848)."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberView, ...]

    def topics(self) -> set[str]:
        """The topics of which a member has partitions, or is to have them."""
        return {
            assigned.topic
            for member in self.members
            for assigned in (*member.assignment, *member.target)
        }


class GroupViews:
    """The views of the groups of one broker."""

    def __init__(
        self,
        topics: Topics,
        registry: GroupRegistry,
        consumer: ConsumerGroupsView,
        classic: ClassicGroupsView,
    ) -> None:
        self._topics = topics
        self._registry = registry
        self._consumer = consumer
        self._classic = classic

    def all(self) -> list[GroupLine]:
        """The groups of all types, by id."""
        return [
            GroupLine(
                group_id,
                kind,
                state,
                self._classic.protocol_type(group_id) if kind is GroupType.CLASSIC else kind,
            )
            for group_id, state, kind in self._registry.list_groups()
        ]

    def consumer_group_states(self) -> Counter[str]:
        """How many consumer groups are in each state."""
        return Counter(state for _, state in self._consumer.list_groups())

    def classic_group_states(self) -> Counter[str]:
        """How many classic groups are in each state, without those that have only offsets."""
        return Counter(state for _, state in self._classic.list_groups())

    def consumer_group(self, group_id: str) -> ConsumerGroupView:
        """One consumer group. Raises GroupIdNotFound."""
        if self._registry.type_of(group_id) not in (None, GroupType.CONSUMER):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        found = self._consumer.describe(group_id)
        return ConsumerGroupView(
            group_id=group_id,
            state=found.state,
            epoch=found.epoch,
            assignment_epoch=found.assignment_epoch,
            assignor=found.assignor,
            members=tuple(self._member(member, found) for member in found.members),
        )

    def classic_group(self, group_id: str) -> Description:
        """One classic group. Raises GroupIdNotFound."""
        return self._classic.describe(group_id)

    def _member(self, member: ConsumerMember, group: ConsumerGroupSnapshot) -> ConsumerMemberView:
        target = group.targets.get(member.member_id, {})
        target_parts = group.target_parts.get(member.member_id, {})
        whole = member.cooperative  # shares by turns, not by keys
        return ConsumerMemberView(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topics=member.subscribed_topics,
            subscribed_regex=member.subscribed_regex,
            classic=member.classic is not None,
            assignment=self._named(plain(member.assigned), {} if whole else member.assigned_parts),
            target=self._named(target, {} if whole else target_parts),
        )

    def _named(self, assignment: Assignment, parts: Parts) -> tuple[AssignedTopicView, ...]:
        """An assignment with the names of its topics; deleted topics are left out."""
        names = ((self._topics.name_of(topic_id), topic_id) for topic_id in assignment)
        return tuple(
            AssignedTopicView(topic_id, name, assignment[topic_id], parts.get(topic_id, {}))
            for name, topic_id in names
            if name is not None
        )
