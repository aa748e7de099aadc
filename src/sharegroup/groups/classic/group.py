"""What the coordinator remembers of a classic group (Kafka class ClassicGroup)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from sharegroup.groups.classic.member import Member
from sharegroup.groups.classic.records import ClassicGroupRecord
from sharegroup.groups.classic.requests import Description, Join, Joined, JoinedMember
from sharegroup.groups.classic.subscription import subscribed_topics
from sharegroup.model import errors

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers, whose metadata the coordinator can read."""


class State(StrEnum):
    """The states of a group, as DescribeGroups names them. A group that is gone is "Dead"."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members join: waits for all of them."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun: waits for the leader's assignments."""
    STABLE = "Stable"


class Replaced(NamedTuple):
    """A static member's join that is answered once its new id is durable."""

    member_id: str
    leader: str
    """The leader that the member is told."""
    can_skip_assignment: bool


class Group:
    """One group. It changes only in ``rebalance.py`` and ``groups.py``."""

    def __init__(self, group_id: str, since_ms: int | None) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.since_ms = since_ms
        """The wall-clock time of the last change of state; None if a record does not say it."""
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """Member id by instance id."""
        self.pending: set[str] = set()
        """Ids given to members that have not joined with them yet."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.waiting = 0
        """How many members wait for the answer to a join."""
        self.supported: Counter[str] = Counter()
        """How many members support a protocol."""
        self.topics: frozenset[str] | None = None
        """The topics that members subscribe to; None if that is not known."""
        self.first_rebalance: tuple[int, int] | None = None
        """While the first members join: (the delay that runs, how much longer the group may wait
        after it), in milliseconds."""
        self.member_added = False
        """Whether a member has joined since the delay of the first rebalance began."""
        self.joined_ms = 0
        """When the last new member joined, on the caller's clock."""
        self.prepared_ms = 0
        """When the join phase began."""
        self.join_deadline_ms = 0
        """When the join phase must end; not for the first rebalance."""
        self.replaced: dict[int, Replaced] = {}
        """Joins of static members that wait for a durable record, by token."""
        self.record: ClassicGroupRecord | None = None
        """The last record written or replayed."""

    # Queries ---------------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing for the next generation."""
        return self.waiting == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member may take to join again."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member of these ids.

        Raises:
            UnknownMemberId: there is no such member.
            FencedInstanceId: the instance has another member id now.
        """
        if instance_id is not None:
            existing = self.instances.get(instance_id)
            if existing is None:
                raise errors.UnknownMemberId
            if existing != member_id:
                raise errors.FencedInstanceId
        if member_id not in self.members:
            raise errors.UnknownMemberId
        return self.members[member_id]

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these protocols fits: all members support one of them."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.supported[name] == size for name in names
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes, among the protocols that all members support."""
        size = len(self.members)
        candidates = {name for name, count in self.supported.items() if count == size}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """All members as the leader sees them."""
        return tuple(
            JoinedMember(m.member_id, m.instance_id, m.metadata(self.protocol_name))
            for m in self.members.values()
        )

    def joined(self, member_id: str) -> Joined:
        """The answer to a join: this generation."""
        return Joined(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            members=self.joined_members() if member_id == self.leader else (),
        )

    def joined_again(self, replaced: Replaced) -> Joined:
        """The answer to a static member that took over in a stable group. It must not assign: an
        older client is therefore told that another member leads."""
        answer = self.joined(replaced.member_id)
        if replaced.can_skip_assignment:
            return replace(answer, skip_assignment=replaced.member_id == self.leader)
        return replace(answer, leader=replaced.leader, members=())

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> None:
        """Allow a commit of offsets (Kafka: ``ClassicGroup.validateOffsetCommit``).

        Raises:
            UnknownMemberId, FencedInstanceId, IllegalGeneration: as their names say.
            RebalanceInProgress: assignments are being handed out.
        """
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise errors.IllegalGeneration
        elif not transactional and self.state is not State.EMPTY:
            raise errors.UnknownMemberId
        if not transactional and self.state is State.COMPLETING_REBALANCE:
            raise errors.RebalanceInProgress

    def describe(self) -> Description:
        """A snapshot."""
        stable = self.state is State.STABLE
        name = self.protocol_name if stable else None
        return Description(
            state=self.state,
            generation=self.generation,
            leader=self.leader,
            protocol_type=self.protocol_type or "",
            protocol_name=name or "",
            members=tuple(member.describe(name) for member in self.members.values()),
        )

    def subscribes(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; true if a consumer's metadata is unreadable."""
        if self.topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.topics

    @property
    def keeps_offsets(self) -> bool:
        """Whether no committed offset may expire now (Kafka:
        ``ClassicGroup.offsetExpirationCondition``). While members join, their topics are not known
        yet; those of members that are no consumers never are."""
        if self.protocol_type is None or self.state is State.EMPTY:
            return False
        return self.state is not State.STABLE or self.topics is None

    def to_record(self, assignments: Mapping[str, bytes] | None = None) -> ClassicGroupRecord:
        """The record of the group, with ``assignments`` by member id, or the current ones."""
        return ClassicGroupRecord(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.leader,
            since_ms=self.since_ms,
            members=tuple(
                m.record(
                    self.protocol_name,
                    m.assignment if assignments is None else assignments.get(m.member_id, b""),
                )
                for m in self.members.values()
            ),
        )

    # Changes ---------------------------------------------------------------------------------

    @classmethod
    def replayed(cls, record: ClassicGroupRecord) -> Group:
        """The group of a record.

        Raises:
            MalformedMessage: the record has members without a protocol, or two with one id.
        """
        group = cls(record.group_id, record.since_ms)
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol_name
        group.generation = record.generation
        group.record = record
        for member in record.members:
            if not record.protocol_type or record.protocol_name is None:
                raise errors.MalformedMessage(
                    f"group {record.group_id} has members, but no protocol"
                )
            if member.member_id in group.members or member.instance_id in group.instances:
                raise errors.MalformedMessage(
                    f"group {record.group_id} has {member.member_id} twice"
                )
            group.add(Member.replayed(member, record.protocol_name), record.protocol_type)
        if group.members:
            group.state = State.STABLE
            group.leader = record.leader if record.leader in group.members else group.leader
        group.update_topics()
        return group

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first member leads, and determines the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self.supported.update(protocol.name for protocol in member.protocols)
        self.waiting += member.joining is not None
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member. If it led, the next member leads."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.supported.subtract(protocol.name for protocol in member.protocols)
            self.supported += Counter()  # drop zeros
            self.waiting -= member.joining is not None
            if self.instances.get(member.instance_id or "") == member_id:
                del self.instances[member.instance_id or ""]
            if self.leader == member_id:
                self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)

    def update(self, member: Member, request: Join, token: int) -> None:
        """A member of the group joins again."""
        self.supported.subtract(protocol.name for protocol in member.protocols)
        member.protocols = tuple(request.protocols)
        self.supported.update(protocol.name for protocol in member.protocols)
        self.supported += Counter()
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self.waiting += member.joining is None
        member.joining = token

    def replace(self, old: Member, member: Member) -> None:
        """``member`` takes the place of a static member, whose requests are answered."""
        self.members = {
            m.member_id: m for m in (member if m is old else m for m in self.members.values())
        }
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if self.leader == old.member_id:
            self.leader = member.member_id
        self.unsynced.discard(old.member_id)

    def elect(self) -> bool:
        """Let a member that has joined lead the group; false if no member has joined."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joined = [m.member_id for m in self.members.values() if m.joining is not None]
            if not joined:
                return False
            self.leader = joined[0]
        return True

    def begin_generation(self, wall_ms: int) -> None:
        """The next generation, of the members there are now."""
        self.generation += 1
        self.unsynced.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(State.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.move_to(State.EMPTY, wall_ms)
        self.update_topics()

    def move_to(self, state: State, wall_ms: int) -> None:
        """Change the state."""
        self.state = state
        self.since_ms = wall_ms
        if state is not State.PREPARING_REBALANCE:
            self.first_rebalance = None

    def update_topics(self) -> None:
        """Read the topics of all members' metadata, if they are consumers."""
        self.topics = None
        if self.protocol_type != CONSUMER_PROTOCOL:
            return
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics |= subscribed_topics(member.metadata(self.protocol_name))
        except errors.MalformedMessage:
            return
        self.topics = frozenset(topics)

    def check_invariants(self) -> None:
        """Raise AssertionError if the group is inconsistent."""
        for problem in (*self._member_problems(), *self._generation_problems()):
            raise AssertionError(f"classic group {self.group_id!r}: {problem}")

    def _member_problems(self) -> Iterator[str]:
        members = self.members
        if any(m.member_id != key for key, m in members.items()):
            yield "a member is under another id"
        if self.waiting != sum(m.joining is not None for m in members.values()):
            yield f"{self.waiting} joins are counted as waiting"
        if self.pending & members.keys():
            yield "a pending member has joined"
        if not self.unsynced <= members.keys():
            yield "a member that is gone is missing its sync"
        named = {m.instance_id: i for i, m in members.items() if m.instance_id is not None}
        if named != self.instances:
            yield "static members are under other instance ids"
        if Counter(p.name for m in members.values() for p in m.protocols) != self.supported:
            yield "supported protocols are counted wrongly"

    def _generation_problems(self) -> Iterator[str]:
        members = self.members.values()
        if self.leader not in (self.members or (None,)):
            yield f"{self.leader} leads"
        if self.state is State.EMPTY and members:
            yield "an empty group has members"
        syncs = any(m.syncing is not None for m in members)
        if syncs and self.state is not State.COMPLETING_REBALANCE:
            yield f"a sync waits in state {self.state}"
        if self.state in (State.COMPLETING_REBALANCE, State.STABLE):
            if not members:
                yield "a generation has no members"
            if self.supported[self.protocol_name or ""] != len(members):
                yield "a member does not support the chosen protocol"
