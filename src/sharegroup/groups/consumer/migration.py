"""A group changes its protocol while it has members (KIP-848): a classic group becomes a consumer
group when the first member of the consumer protocol joins, and becomes a classic group again when
the last such member has gone.

Source: Kafka classes GroupMetadataManager (convertToConsumerGroup, convertToClassicGroup),
ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from sharegroup.groups.classic.embedded import (
    Partitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from sharegroup.groups.classic.group import CONSUMER_PROTOCOL, State
from sharegroup.groups.classic.group import Group as ClassicGroup
from sharegroup.groups.classic.member import Member as ClassicMember
from sharegroup.groups.classic.records import ClassicRecord
from sharegroup.groups.classic.requests import Protocol as AssignmentProtocol
from sharegroup.groups.consumer.group import ConsumerGroup, current_assignment, member_metadata
from sharegroup.groups.consumer.member import ConsumerMember
from sharegroup.groups.consumer.records import (
    ClassicMetadata,
    ConsumerCurrentMemberAssignment,
    ConsumerGroupMetadata,
    ConsumerMemberMetadata,
    ConsumerRecord,
    ConsumerTargetAssignmentMember,
    ConsumerTargetAssignmentMetadata,
    Held,
    ResolvedRegex,
    WrittenRecord,
    plain,
)
from sharegroup.groups.records import Assignment, Tombstone
from sharegroup.groups.topics import TopicsImage, metadata_hash
from sharegroup.model.errors import GroupIdNotFound, MalformedMessage


class MigrationPolicy(StrEnum):
    """``group.consumer.migration.policy``: which way a group with members may go."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """From the classic protocol to the consumer protocol."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """From the consumer protocol to the classic protocol."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ClassicSide(Protocol):
    """The classic groups that live in the same log."""

    def group(self, group_id: str) -> ClassicGroup | None:
        """A group, to be read only."""
        ...

    def release(self, group_id: str) -> Sequence[ClassicRecord]:
        """Forget a group that becomes a consumer group. Its members that wait for an answer are
        told to join again."""
        ...

    def keep(self, group_id: str) -> None:
        """A group cannot become a consumer group, although its settings allow it. Its members that
        wait for an answer are told to join again."""
        ...

    def adopt(self, group: ClassicGroup, *, rebalance: bool) -> Sequence[ClassicRecord]:
        """Take over a group that was a consumer group; ``rebalance`` makes its members join again
        at once."""
        ...


class Migration:
    """Groups that change their protocol.

    Args:
        classic: the classic groups in the same log; without them no group changes its protocol.
        policy: which way a group with members may go.
        size_max: how many members a group may have that becomes a consumer group.
        classic_size_max: how many members a group may have that becomes a classic group.
    """

    def __init__(
        self,
        classic: ClassicSide | None,
        policy: MigrationPolicy,
        size_max: int,
        classic_size_max: int,
    ) -> None:
        self._classic = classic
        self._policy = policy
        self._size_max = size_max
        self._classic_size_max = classic_size_max

    @property
    def is_disabled(self) -> bool:
        """Whether the members of a group all use one protocol."""
        return self._policy is MigrationPolicy.DISABLED

    def is_classic(self, group_id: str) -> bool:
        """Whether there is such a classic group."""
        return self._classic is not None and self._classic.group(group_id) is not None

    def upgraded(self, group_id: str, topics: TopicsImage) -> ConsumerGroup | None:
        """The consumer group that the classic group of that id would become; None without such a
        classic group. Of an empty classic group only the id is kept.

        Raises:
            GroupIdNotFound: the group cannot become a consumer group.
        """
        classic = None if self._classic is None else self._classic.group(group_id)
        if self._classic is None or classic is None:
            return None
        if classic.state is State.EMPTY:
            return ConsumerGroup(group_id)
        check_upgrade(classic, self._policy, self._size_max)
        try:
            return upgraded(classic, topics)
        except GroupIdNotFound:
            self._classic.keep(group_id)
            raise

    def taken_over(self, group: ConsumerGroup) -> tuple[WrittenRecord, ...]:
        """The classic group has become this consumer group."""
        assert self._classic is not None
        records = group.records() if group.members else ()
        return (*self._classic.release(group.group_id), *records)

    def may_downgrade(self, size: int, members: Iterable[ConsumerMember]) -> bool:
        """Whether a group of this size becomes a classic group, which has these members."""
        fits = self._policy.downgrades and size <= self._classic_size_max
        return self._classic is not None and fits and all(m.classic for m in members)

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[str],
        generation: int,
        topics: TopicsImage,
        *,
        rebalance: bool,
    ) -> tuple[WrittenRecord, ...]:
        """Let a consumer group become a classic group: :func:`downgraded`. ``rebalance`` makes its
        members join again at once.
        """
        assert self._classic is not None
        classic = downgraded(group, leaving, generation, topics)
        return (*tombstones(group), *self._classic.adopt(classic, rebalance=rebalance))


def _refusal(group: ClassicGroup) -> str:
    return f"Cannot upgrade classic group {group.group_id} to consumer group because "


def check_upgrade(group: ClassicGroup, policy: MigrationPolicy, size_max: int) -> None:
    """Whether the settings let a classic group with members become a consumer group.

    Raises:
        GroupIdNotFound: the settings do not; the message says why.
    """
    refusal = _refusal(group)
    if not policy.upgrades:
        raise GroupIdNotFound(refusal + "online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise GroupIdNotFound(refusal + "the group does not use the consumer embedded protocol.")
    if len(group.members) > size_max:
        raise GroupIdNotFound(refusal + "the group size exceeds the consumer group maximum size.")


def upgraded(group: ClassicGroup, topics: TopicsImage) -> ConsumerGroup:
    """The consumer group that a classic group with members becomes. Its members own the partitions
    that the last assignments gave them. The classic group is not changed.

    Raises:
        GroupIdNotFound: the members' metadata or assignments do not fit; the message says why.
    """
    refusal = _refusal(group)
    protocol = group.protocol_name
    if protocol is None or group.supported[protocol] < len(group.members):
        protocol = group.select_protocol()  # a member that is joining knows other protocols
    try:
        members = [
            _to_consumer(member, protocol, group.generation, topics)
            for member in group.members.values()
        ]
    except MalformedMessage as error:
        raise GroupIdNotFound(refusal + "the embedded consumer protocol is malformed.") from error
    if None in members:
        raise GroupIdNotFound(
            refusal + "an unsupported custom assignor is in use. Please refer to the documentation "
            "or switch to a default assignor before re-attempting the upgrade."
        )
    found = [member for member in members if member is not None]
    if not _are_apart(found):
        raise GroupIdNotFound(refusal + "the embedded consumer protocol is malformed.")
    return _with_members(group.group_id, group.generation, found, topics)


def _to_consumer(
    member: ClassicMember, protocol: str, generation: int, topics: TopicsImage
) -> ConsumerMember | None:
    """The member in a consumer group; None if a custom assignor's data would be lost."""
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        return None
    subscription = decode_subscription(member.metadata(protocol))
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
        epoch=generation,
        previous_epoch=generation,
        assigned=_held(by_id(assignment.partitions, topics), generation),
    )


def _held(partitions: Mapping[UUID, Collection[int]], epoch: int) -> Held:
    return {
        topic_id: dict.fromkeys(sorted(partitions[topic_id]), epoch)
        for topic_id in sorted(partitions)
        if partitions[topic_id]
    }


def _are_apart(members: Sequence[ConsumerMember]) -> bool:
    """Whether no partition has two owners."""
    held = [
        (topic_id, partition)
        for member in members
        for topic_id, partitions in member.assigned.items()
        for partition in partitions
    ]
    return len(held) == len(set(held))


def _with_members(
    group_id: str, generation: int, members: Sequence[ConsumerMember], topics: TopicsImage
) -> ConsumerGroup:
    group = ConsumerGroup(group_id)
    for member in members:
        group.apply(member_metadata(group_id, member))
    digest = metadata_hash(group.subscribed_topics(), topics)
    group.apply(ConsumerGroupMetadata(group_id=group_id, epoch=generation, metadata_hash=digest))
    for member in members:
        group.apply(
            ConsumerTargetAssignmentMember(
                group_id=group_id, member_id=member.member_id, assignment=plain(member.assigned)
            )
        )
    group.apply(ConsumerTargetAssignmentMetadata(group_id=group_id, assignment_epoch=generation))
    for member in members:
        group.apply(current_assignment(group_id, member))
    return group


def downgraded(
    group: ConsumerGroup, leaving: Collection[str], generation: int, topics: TopicsImage
) -> ClassicGroup:
    """The classic group that a consumer group becomes without the members ``leaving``; all others
    use the classic protocol. ``generation`` is the group epoch. Each member has the partitions that
    it owns or has yet to give back: a later upgrade must not give them to others. (Kafka takes the
    target assignment, so a partition may have two owners after a downgrade and an upgrade.)
    """
    classic = ClassicGroup(group.group_id, None)
    for member in group.members.values():
        if member.member_id in leaving:
            continue
        assert member.classic is not None, "a member with the consumer protocol would stay"
        classic.add(
            ClassicMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=[AssignmentProtocol(*one) for one in member.classic.protocols],
            ),
            CONSUMER_PROTOCOL,
        )
    classic.state = State.STABLE
    classic.generation = generation
    classic.protocol_name = classic.select_protocol()
    names = topics.ids(group.subscribed_topics())
    for one in classic.members.values():
        held = by_name(group.members[one.member_id].held(), names)
        metadata = one.metadata(classic.protocol_name)
        one.assignment = encode_assignment(held, metadata)
    classic.update_topics()
    return classic


def tombstones(group: ConsumerGroup) -> list[ConsumerRecord]:
    """The records that delete a consumer group with its members."""
    group_id, members = group.group_id, list(group.members)

    def gone(key_type: int, name: str | None = None) -> Tombstone:
        return Tombstone(key_type=key_type, group_id=group_id, member_id=name)

    return [
        *(gone(ConsumerCurrentMemberAssignment.key_type, member_id) for member_id in members),
        *(gone(ConsumerTargetAssignmentMember.key_type, member_id) for member_id in group.targets),
        gone(ConsumerTargetAssignmentMetadata.key_type),
        *(gone(ConsumerMemberMetadata.key_type, member_id) for member_id in members),
        *(gone(ResolvedRegex.key_type, regex) for regex in group.regexes),
        gone(ConsumerGroupMetadata.key_type),
    ]


def classic_metadata(
    session_timeout_ms: int, protocols: Sequence[AssignmentProtocol]
) -> ClassicMetadata:
    """Session timeout and protocols from the JoinGroup of a member of the classic protocol."""
    return ClassicMetadata(
        session_timeout_ms=session_timeout_ms,
        protocols=tuple((one.name, bytes(one.metadata)) for one in protocols),
    )


def by_id(partitions: Partitions, topics: TopicsImage) -> dict[UUID, frozenset[int]]:
    """Partitions by the id of their topic; topics that do not exist are left out."""
    return {
        info.topic_id: frozenset(held)
        for name, held in partitions.items()
        if (info := topics.get(name)) is not None
    }


def by_name(assignment: Assignment, names: Mapping[UUID, str]) -> dict[str, Sequence[int]]:
    """Partitions by the name of their topic; topics without a name are left out."""
    return {names[topic_id]: held for topic_id, held in assignment.items() if topic_id in names}
