"""Members of consumer groups that use the classic protocol: while a group changes its protocol, old
and new members are in it together (KIP-848; Kafka class GroupMetadataManager,
classicGroupJoinToConsumerGroup and its neighbours).

The broker assigns the partitions. JoinGroup answers at once, with the member's epoch as its
generation and without a leader. SyncGroup fetches the assignment. A member that must give
partitions back, or can have more, is told REBALANCE_IN_PROGRESS and joins again; its subscription
says what it owns.

Two departures. If no member uses the consumer protocol, heartbeats compute an assignment that is
due; in Kafka it waits until somebody joins. When a static member replaces the last member of the
consumer protocol while partitions are on their way, the members join again; in Kafka they do not,
and nobody reads these partitions until the next rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sharegroup.groups.classic.embedded import (
    EmbeddedSubscription,
    decode_subscription,
    encode_assignment,
)
from sharegroup.groups.classic.group import CONSUMER_PROTOCOL
from sharegroup.groups.classic.requests import (
    Join,
    Joined,
    LeavingMember,
    LeftMember,
    Refused,
    Sync,
    Synced,
)
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.assigning import Assigning
from sharegroup.groups.consumer.group import ConsumerGroup
from sharegroup.groups.consumer.member import (
    ConsumerGroupState,
    ConsumerMember,
    ConsumerMemberState,
)
from sharegroup.groups.consumer.members import Members
from sharegroup.groups.consumer.migration import Migration, by_id, by_name
from sharegroup.groups.consumer.reconciliation import Owned
from sharegroup.groups.consumer.records import ClassicMetadata, ConsumerRecord, WrittenRecord, plain
from sharegroup.groups.consumer.timers import Timers
from sharegroup.groups.consumer.transition import ConsumerTransition
from sharegroup.groups.table import GroupTable
from sharegroup.groups.topics import TopicsImage
from sharegroup.model import errors
from sharegroup.model.limits import GROUP_PROTOCOLS_MAX


class _Admitted(NamedTuple):
    """A join that may go ahead."""

    group: ConsumerGroup
    known: ConsumerMember | None
    """The member, or the static member that it replaces."""
    member_id: str
    subscription: EmbeddedSubscription
    owned: Owned


class ClassicMembers:
    """What members of the classic protocol ask of the groups in ``table``."""

    def __init__(
        self,
        settings_of: Callable[[str], GroupSettings],
        table: GroupTable[ConsumerGroup, ConsumerRecord],
        timers: Timers,
        assigning: Assigning,
        members: Members,
        migration: Migration,
    ) -> None:
        self._settings_of = settings_of
        self._table = table
        self._timers = timers
        self._assigning = assigning
        self._members = members
        self._migration = migration

    # Joining ---------------------------------------------------------------------------------

    def join(
        self, request: Join, topics: TopicsImage, now_ms: int
    ) -> tuple[Joined | Refused, tuple[WrittenRecord, ...]]:
        """JoinGroup to a consumer group that has members. The caller must make the records durable
        before it answers.

        Raises, before anything has changed:
            InconsistentGroupProtocol: the policy forbids it, the protocols do not fit, or the
                subscription is malformed.
            GroupMaxSizeReached: a new member would be one too many.
            UnknownMemberId, FencedInstanceId: as their names say.
            FencedMemberEpoch: a later version left the member in a state that is not known here.
        """
        admitted = self._admit(request, topics)
        if isinstance(admitted, Refused):
            return admitted, ()
        group, known, member_id, subscription, owned = admitted
        downgrades = known is not None and self._downgrades_replacing(group, known, request)
        transition, epoch = ConsumerTransition(group), group.epoch
        if known is not None and known.member_id != member_id:
            self._members.replace_static(transition, known.member_id, member_id)
        changed = transition.describe_classic(request, member_id, subscription)
        transition.forget_regexes()
        self._assigning.bump(transition, topics, changed=changed)
        stale = group.assignment_epoch < group.epoch
        if not downgrades:
            self._assigning.retarget(transition, topics, now_ms, self._settings_of(group.group_id))
        if not (downgrades and stale):
            transition.reconcile(member_id, topics, owned, changed=changed)
        member = group.members[member_id]
        records: tuple[WrittenRecord, ...] = transition.records
        if downgrades:
            rebalance = stale or group.state is not ConsumerGroupState.STABLE
            records += self._members.downgrade(group, (), epoch, topics, rebalance=rebalance)
        else:
            self._timers.heard_of(group.group_id, member, now_ms, 0)
            self._timers.joined(group.group_id, member, now_ms)
        answer = Joined(
            member_id=member_id,
            generation=member.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=request.protocols[0].name,
            leader="",
        )
        return answer, records

    def _admit(self, request: Join, topics: TopicsImage) -> _Admitted | Refused:
        group = self._table.existing(request.group_id)
        if self._migration.is_disabled:
            raise errors.InconsistentGroupProtocol(
                f"Cannot join the consumer group {group.group_id} with the classic protocol "
                "because the group migration is disabled."
            )
        member_id = request.member_id or request.new_member_id
        static = group.static_member(request.instance_id) if request.instance_id else None
        if static is None and member_id not in group.members:
            self._members.check_size(group)
        names = [protocol.name for protocol in request.protocols[: GROUP_PROTOCOLS_MAX + 1]]
        fits = request.protocol_type == CONSUMER_PROTOCOL and group.supports_classic(names)
        if not fits or len(names) > GROUP_PROTOCOLS_MAX:
            raise errors.InconsistentGroupProtocol(
                f"Member {member_id}'s protocols are not supported."
            )
        if not request.member_id and request.id_required and request.instance_id is None:
            return Refused(errors.MemberIdRequired(), member_id)
        known = group.members.get(member_id)
        if request.instance_id is not None:
            if request.member_id:
                known = group.own_static_member(request.member_id, request.instance_id)
            else:
                known = static
        try:
            subscription = decode_subscription(request.protocols[0].metadata)
        except errors.MalformedMessage as error:
            raise errors.InconsistentGroupProtocol(
                "Malformed embedded consumer protocol in subscription deserialization."
            ) from error
        owned = by_id(subscription.owned, topics)
        if known is not None and known.state is ConsumerMemberState.UNKNOWN and owned:
            raise errors.FencedMemberEpoch(
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
        return _Admitted(group, known, member_id, subscription, owned)

    def _downgrades_replacing(
        self, group: ConsumerGroup, known: ConsumerMember, request: Join
    ) -> bool:
        """Whether a static member replaces the last member of the consumer protocol."""
        others = (m for m in group.members.values() if m is not known)
        return (
            request.instance_id is not None
            and known.classic is None
            and self._migration.may_downgrade(len(group.members), others)
        )

    # Staying ---------------------------------------------------------------------------------

    def sync(self, request: Sync, topics: TopicsImage, now_ms: int) -> Synced:
        """SyncGroup: the member's assignment.

        Raises:
            UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol: as
                their names say.
            RebalanceInProgress: there is a new assignment; the member must join again.
        """
        group, member, classic = self._classic_member(
            request.group_id, request.member_id, request.instance_id, request.generation
        )
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL) or (
            request.protocol_name not in (None, name)
        ):
            raise errors.InconsistentGroupProtocol
        if (
            group.assignment_epoch > member.epoch
            and member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS
        ):
            self._timers.must_join(group.group_id, member, now_ms)
            raise errors.RebalanceInProgress(
                f"A new rebalance is triggered in group {group.group_id} and member "
                f"{member.member_id} should rejoin to catch up."
            )
        self._timers.synced(group.group_id, member)
        self._timers.heard_of(group.group_id, member, now_ms, 0)
        held = by_name(plain(member.assigned), topics.ids(group.subscribed_topics()))
        return Synced(
            request.protocol_type, request.protocol_name, encode_assignment(held, metadata)
        )

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        topics: TopicsImage,
        now_ms: int,
    ) -> tuple[bool, tuple[WrittenRecord, ...]]:
        """Heartbeat; returns whether the member must join again, and records to make durable.

        Raises:
            UnknownMemberId, FencedInstanceId, IllegalGeneration: as their names say.
        """
        group, member, _ = self._classic_member(group_id, member_id, instance_id, generation)
        self._timers.heard_of(group_id, member, now_ms, 0)
        transition = ConsumerTransition(group)
        if all(one.classic for one in group.members.values()):
            self._assigning.bump(transition, topics, changed=False)
            self._assigning.retarget(transition, topics, now_ms, self._settings_of(group_id))
        must_join = (
            member.epoch < group.assignment_epoch
            or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
            or (
                member.state is ConsumerMemberState.UNRELEASED_PARTITIONS
                and not group.waits_for_others(member)
            )
        )
        if must_join:
            self._timers.must_join(group_id, member, now_ms)
        return must_join, transition.records

    def _classic_member(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerGroup, ConsumerMember, ClassicMetadata]:
        group = self._table.get(group_id)
        if group is None:
            raise errors.UnknownMemberId
        if instance_id is not None:
            member = group.own_static_member(member_id, instance_id)
        else:
            member = group.member(member_id)
        if member.classic is None:
            raise errors.UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
        if generation != member.epoch:
            raise errors.IllegalGeneration(
                f"The request generation id {generation} is not equal to the member epoch "
                f"{member.epoch} of member {member_id}."
            )
        return group, member, member.classic

    # Leaving ---------------------------------------------------------------------------------

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember], topics: TopicsImage
    ) -> tuple[Sequence[LeftMember], tuple[WrittenRecord, ...]]:
        """LeaveGroup, for members of both protocols: an administrator names static members by their
        instance.

        Raises:
            UnknownMemberId: there is no such group.
        """
        group = self._table.get(group_id)
        if group is None:
            raise errors.UnknownMemberId
        left: list[LeftMember] = []
        gone: dict[str, None] = {}
        for one in leaving:
            try:
                gone[_leaving(group, one).member_id] = None
            except errors.KafkaError as error:
                left.append(LeftMember(one, error))
            else:
                left.append(LeftMember(one, None))
        return left, self._members.remove(group, list(gone), topics)


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    if leaving.instance_id is None:
        return group.member(leaving.member_id)
    if leaving.member_id:
        return group.own_static_member(leaving.member_id, leaving.instance_id)
    static = group.static_member(leaving.instance_id)
    if static is None:
        raise errors.UnknownMemberId(f"Instance id {leaving.instance_id} is unknown.")
    return static
