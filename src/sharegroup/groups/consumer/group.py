"""The state of one consumer group: the fold of its records (Kafka class ConsumerGroup).

Only :meth:`ConsumerGroup.apply` changes it, so a replay of the log rebuilds exactly this state.
:meth:`ConsumerGroup.records` returns records that rebuild all of it. A member's epoch
is 0 when it has just joined, and -2 while a static member is away.

Invariants (:meth:`ConsumerGroup.check_invariants`), beside those of ``modern_group.py``: no
partition, and no hash of a partition that members share, has two owners; member epoch ≤ assignment
epoch; only a member that revokes has partitions to give back; partition lists ascend and are not
empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from uuid import UUID

from sharegroup.cooperative.hash_split import WHOLE
from sharegroup.cooperative.intervals import Intervals, common, union
from sharegroup.groups.consumer.member import (
    ConsumerGroupSnapshot,
    ConsumerGroupState,
    ConsumerMember,
    ConsumerMemberState,
)
from sharegroup.groups.consumer.parts import Key, part_of
from sharegroup.groups.consumer.records import (
    ConsumerCurrentMemberAssignment,
    ConsumerGroupMetadata,
    ConsumerMemberMetadata,
    ConsumerRecord,
    ConsumerTargetAssignmentMember,
    ConsumerTargetAssignmentMetadata,
    Parts,
    ResolvedRegex,
)
from sharegroup.groups.modern_group import ModernGroup, RecordKinds, is_tidy
from sharegroup.groups.records import Tombstone
from sharegroup.model.errors import FencedInstanceId, UnknownMemberId

AWAY_EPOCH = -2
"""The epoch of a static member that has left and may come back."""


class ConsumerGroup(ModernGroup[ConsumerMember]):
    """One group; see the module."""

    __slots__ = ("instances", "owners", "regexes", "sharers", "target_parts")
    kinds = RecordKinds(
        ConsumerMemberMetadata,
        ConsumerGroupMetadata,
        ConsumerTargetAssignmentMetadata,
        ConsumerTargetAssignmentMember,
        ConsumerCurrentMemberAssignment,
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.target_parts: dict[str, Parts] = {}
        self.regexes: dict[str, tuple[str, ...]] = {}
        """The topics of each resolved regular expression."""
        self.instances: dict[str, str] = {}
        """Member ids of static members by instance id."""
        self.owners: dict[Key, str] = {}
        """The member that owns a whole partition, or has yet to give it back."""
        self.sharers: dict[Key, dict[str, Intervals]] = {}
        """The members that own a part of a partition or have yet to give it back, and the part."""

    # Reading ---------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """Kafka's state of the group."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.is_pending:
            return ConsumerGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member of that instance id, also while it is away."""
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def own_static_member(self, member_id: str, instance_id: str) -> ConsumerMember:
        """The member of that instance id, which must be ``member_id``.

        Raises:
            UnknownMemberId: there is no such instance id.
            FencedInstanceId: another member has it now.
        """
        static = self.static_member(instance_id)
        if static is None:
            raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
        if static.member_id != member_id:
            raise FencedInstanceId(
                f"Static member {member_id} with instance id {instance_id} was fenced "
                f"by member {static.member_id}."
            )
        return static

    def topics_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """The names that a member subscribes to, including the topics of its expression."""
        matched = self.regexes.get(member.subscribed_regex or "", ())
        return (
            tuple(sorted({*member.subscribed_topics, *matched}))
            if matched
            else (member.subscribed_topics)
        )

    def subscribed_topics(self) -> set[str]:
        """Names that at least one member subscribes to."""
        members = self.members.values()
        names = {name for member in members for name in member.subscribed_topics}
        for regex in self.subscribed_regexes():
            names.update(self.regexes.get(regex, ()))
        return names

    def subscribed_regexes(self) -> Counter[str]:
        """The regular expressions that members subscribe to, with their number of members."""
        members = self.members.values()
        return Counter(m.subscribed_regex for m in members if m.subscribed_regex is not None)

    def unresolved(self, *, again: bool) -> list[str]:
        """The regular expressions that have no topics yet, or, with ``again``, all; in order."""
        return sorted(
            regex for regex in self.subscribed_regexes() if again or regex not in self.regexes
        )

    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for; of several, the first by name."""
        wishes = Counter(m.server_assignor for m in self.members.values() if m.server_assignor)
        return min(wishes, key=lambda name: (-wishes[name], name), default=None)

    def supports_classic(self, protocols: Collection[str]) -> bool:
        """Whether one of these protocols is supported by all members of the classic protocol."""
        classic = [m.classic for m in self.members.values() if m.classic is not None]
        supported = Counter(name for one in classic for name in {n for n, _ in one.protocols})
        return any(supported[name] == len(classic) for name in protocols)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member has yet to give back a partition of the member's target."""
        member_id = member.member_id
        parts = self.target_parts.get(member_id, {})
        return any(
            common(self.taken(topic_id, partition, member_id), part_of(parts, topic_id, partition))
            for topic_id, partitions in self.targets.get(member_id, {}).items()
            for partition in partitions
        )

    def taken(self, topic_id: UUID, partition: int, member_id: str) -> Intervals:
        """The hashes of a partition that others than ``member_id`` own or have yet to give back."""
        key = (topic_id, partition)
        if self.owners.get(key, member_id) != member_id:
            return WHOLE
        taken: Intervals = ()
        for other, part in self.sharers.get(key, {}).items():
            if other != member_id:
                taken = union(taken, part)
        return taken

    def owners_of(self, topic_id: UUID, partition: int) -> tuple[str, ...]:
        """The members that own a partition, or a part of it, or have yet to give it back."""
        key = (topic_id, partition)
        owner = self.owners.get(key)
        return tuple(self.sharers.get(key, ())) if owner is None else (owner,)

    def describe(self, assignor: str) -> ConsumerGroupSnapshot:
        """The group as it is now. It uses ``assignor`` if no member asks for an assignor."""
        return ConsumerGroupSnapshot(
            group_id=self.group_id,
            state=self.state,
            epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor=self.preferred_assignor() or assignor,
            members=self.members_by_id(),
            targets=dict(self.targets),
            target_parts=dict(self.target_parts),
        )

    def target_record(self, member_id: str) -> ConsumerTargetAssignmentMember:
        """The record of a member's target, with its parts."""
        return ConsumerTargetAssignmentMember(
            group_id=self.group_id,
            member_id=member_id,
            assignment=self.targets[member_id],
            parts=self.target_parts.get(member_id, {}),
        )

    def records(self) -> Iterator[ConsumerRecord]:
        """Records that rebuild the whole group: the content of a rewritten log."""
        group_id = self.group_id
        for member in self.members.values():
            yield member_metadata(group_id, member)
        for regex, topics in self.regexes.items():
            yield ResolvedRegex(group_id=group_id, regex=regex, topics=topics)
        yield from self.assignment_records()
        for member in self.members.values():
            yield current_assignment(group_id, member)

    # Changing --------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        """Apply ``record`` to the state."""
        match record:
            case ConsumerMemberMetadata():
                self._describe(record)
            case ConsumerTargetAssignmentMember():
                self.fold(record)
                self.target_parts.pop(record.member_id, None)
                if record.parts:
                    self.target_parts[record.member_id] = record.parts
            case ConsumerCurrentMemberAssignment():
                self._assign(record)
                return
            case ResolvedRegex():
                self.regexes[record.regex] = record.topics
            case Tombstone():
                self.fold(record)
                self._forget(record.key_type, record.member_id or "")
            case _:
                self.fold(record)
        self.revision += 1

    def _member(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id=member_id)

    def _describe(self, record: ConsumerMemberMetadata) -> None:
        before = self._member(record.member_id)
        self._forget_instance(before)
        if record.instance_id is not None:
            self.instances[record.instance_id] = record.member_id
        self.members[record.member_id] = replace(
            before,
            instance_id=record.instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            subscribed_topics=record.subscribed_topics,
            subscribed_regex=record.subscribed_regex,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            server_assignor=record.server_assignor,
            classic=record.classic,
            takes_ranges=record.takes_ranges,
            cooperative=record.cooperative,
        )

    def _assign(self, record: ConsumerCurrentMemberAssignment) -> None:
        before = self._member(record.member_id)
        after = replace(
            before,
            epoch=record.member_epoch,
            previous_epoch=record.previous_member_epoch,
            state=ConsumerMemberState.of(record.state),
            assigned=record.assigned,
            revoking=record.revoking,
            assigned_parts=record.assigned_parts,
            revoking_parts=record.revoking_parts,
        )
        self._release(before)
        for key, part in after.parts_held():
            if part == WHOLE:
                self.owners[key] = after.member_id
            else:
                self.sharers.setdefault(key, {})[after.member_id] = part
        self.members[record.member_id] = after

    def _forget_instance(self, member: ConsumerMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member.member_id:
            del self.instances[instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for key, _ in member.parts_held():
            if self.owners.get(key) == member.member_id:
                del self.owners[key]
            sharers = self.sharers.get(key, {})
            if sharers.pop(member.member_id, None) and not sharers:
                del self.sharers[key]

    def _forget(self, key_type: int, member_id: str) -> None:
        if key_type == ConsumerMemberMetadata.key_type:
            member = self.members.pop(member_id, None)
            if member is not None:
                self._release(member)
                self._forget_instance(member)
        elif key_type == ConsumerTargetAssignmentMember.key_type:
            self.target_parts.pop(member_id, None)
        elif key_type == ConsumerCurrentMemberAssignment.key_type and member_id in self.members:
            member = self.members[member_id]
            self._release(member)
            self.members[member_id] = replace(member.without_partitions(), previous_epoch=-1)
        elif key_type == ResolvedRegex.key_type:
            self.regexes.pop(member_id, None)

    # Checking --------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raise AssertionError where an invariant of the module does not hold."""
        for problem in self._problems():
            raise AssertionError(f"consumer group {self.group_id!r}: {problem}")

    def _problems(self) -> Iterator[str]:
        yield from self.problems()
        if not self.regexes.keys() <= self.subscribed_regexes().keys():
            yield "a resolved regular expression has no member"
        if not self.target_parts.keys() <= self.targets.keys():
            yield "there are parts of no target assignment"
        for member in self.members.values():
            yield from self._problems_of(member)
        yield from self._problems_of_owners()

    def _problems_of_owners(self) -> Iterator[str]:
        owners: dict[Key, str] = {}
        sharers: dict[Key, dict[str, Intervals]] = {}
        for member in self.members.values():
            for key, part in member.parts_held():
                if part == WHOLE:
                    owners[key] = member.member_id
                else:
                    sharers.setdefault(key, {})[member.member_id] = part
                if common(self.taken(*key, member.member_id), part):
                    yield f"{member.member_id} and another own {key}"
        if owners != self.owners or sharers != self.sharers:
            yield f"the owners are {owners} {sharers}, not {self.owners} {self.sharers}"

    def _problems_of(self, member: ConsumerMember) -> Iterator[str]:
        name = f"member {member.member_id}"
        if not AWAY_EPOCH <= member.epoch <= self.assignment_epoch:
            yield f"{name} has the epoch {member.epoch}"
        if member.revoking and member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
            yield f"{name} is {member.state.name} and must give {member.revoking} back"
        if member.instance_id and self.instances.get(member.instance_id) != member.member_id:
            yield f"{name} does not have its instance id {member.instance_id}"
        for held in (member.assigned, member.revoking):
            if not is_tidy(held):
                yield f"{name} has {held}"
        if not member.takes_ranges and any(part != WHOLE for _, part in member.parts_held()):
            yield f"{name} has parts of partitions, and takes none"


def member_metadata(group_id: str, member: ConsumerMember) -> ConsumerMemberMetadata:
    """The record of who a member is."""
    return ConsumerMemberMetadata(
        group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topics=member.subscribed_topics,
        subscribed_regex=member.subscribed_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic=member.classic,
        takes_ranges=member.takes_ranges,
        cooperative=member.cooperative,
    )


def current_assignment(group_id: str, member: ConsumerMember) -> ConsumerCurrentMemberAssignment:
    """The record of what a member owns."""
    return ConsumerCurrentMemberAssignment(
        group_id=group_id,
        member_id=member.member_id,
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned=member.assigned,
        revoking=member.revoking,
        assigned_parts=member.assigned_parts,
        revoking_parts=member.revoking_parts,
    )
