"""The membership side of a consumer group coordinator: heartbeats, sessions, assignment (KIP-848;
Kafka class GroupMetadataManager, its consumer half).

**Decide, apply, persist, answer.** A request is checked completely, then applied at once. The
records of the change are returned, and the caller must make them durable, in order, before it
answers. If that fails, the caller must throw this object away and replay the log.

**Regular expressions** are resolved inside the heartbeat that brings them, so that the first answer
has the assignment; Kafka resolves them after it, and assigns with a later heartbeat.

Times are milliseconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from sharegroup.groups.classic.group import Group as ClassicGroup
from sharegroup.groups.classic.group import State
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.classic_members import ClassicMembers
from sharegroup.groups.consumer.commits import check_commit, check_current
from sharegroup.groups.consumer.group import AWAY_EPOCH, ConsumerGroup
from sharegroup.groups.consumer.heartbeat import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    check_member_epoch,
    check_sharing,
)
from sharegroup.groups.consumer.member import ConsumerGroupDescription, ConsumerMember
from sharegroup.groups.consumer.migration import check_upgrade, tombstones, upgraded
from sharegroup.groups.consumer.parts import Key
from sharegroup.groups.consumer.patterns import compile_regex
from sharegroup.groups.consumer.records import (
    ConsumerRecord,
    WrittenRecord,
    plain,
)
from sharegroup.groups.consumer.transition import ConsumerTransition, Sees
from sharegroup.groups.modern_group import JOIN_EPOCH
from sharegroup.groups.offsets import Committer
from sharegroup.groups.sessions import MemberKey
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    InvalidRegularExpression,
    InvalidRequest,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from sharegroup.model.limits import GROUP_REGEXES_MAX


class ConsumerGroups(ClassicMembers):
    """All consumer groups of this coordinator.

    Args:
        settings_of: the effective settings of a group at the time of the call.
        assignors: names of the assignors that members may ask for, the default first.
        group_size_max: how many members a group may have.
        regex_refresh_ms: how long the topics of a regular expression are trusted while no topic
            changes: rights may change.
        classic: the classic groups in the same log; without them no group changes its protocol.
        migration_policy: which way a group with members may change its protocol.
        classic_size_max: how many members a group may have that becomes a classic group.
        matches: the topics of regular expressions, which machines may share.
    """

    # Heartbeats ------------------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerHeartbeat,
        topics: TopicsImage,
        now_ms: int,
        sees: Sees | None = None,
    ) -> ConsumerHeartbeatResult:
        """Apply a heartbeat that ``check_heartbeat`` has accepted. The caller must make ``records``
        durable before it answers. A classic group becomes a consumer group when a member joins.

        Raises, before anything has changed:
            GroupIdNotFound: the group does not exist and the member does not join; or it is a
                classic group that cannot become a consumer group.
            GroupMaxSizeReached: a new member would be one too many.
            UnknownMemberId: the member does not exist and does not join. It must join again.
            FencedMemberEpoch: the epoch is not the member's. It must join again.
            UnreleasedInstanceId: a member with that instance id has not left.
            FencedInstanceId: another member has that instance id now.
            InvalidRegularExpression: RE2 refuses it, or the group has too many.
            InconsistentGroupProtocol: other members share partitions in another way.
        """
        classic = self._classic_group(request)
        upgrade = None if classic is None else self._upgrade(classic, topics)
        group, known = self._admit(request, upgrade)
        if request.leaves:
            return self._leave(group, known, request, topics)
        settings = self._settings_of(group.group_id)
        taken: tuple[WrittenRecord, ...] = ()
        if classic is not None:
            taken = self._take_over(classic, group, now_ms)
        self._groups[group.group_id] = group
        transition = ConsumerTransition(group)
        if known is not None and (
            known.epoch == AWAY_EPOCH or known.member_id != request.member_id
        ):
            self._replace_static(transition, known.member_id, request.member_id)
        before = group.members.get(request.member_id)
        interval_ms = self._advance(transition, request, topics, now_ms, settings, sees)
        member = group.members[request.member_id]
        self._timers.uses_consumer_protocol(group.group_id, member)
        timeout_ms = settings.consumer_session_timeout_ms
        self._timers.heard_of(group.group_id, member, now_ms, timeout_ms)
        news = (
            request.is_full
            or before is None
            or (before.assigned, before.assigned_parts) != (member.assigned, member.assigned_parts)
        )
        return ConsumerHeartbeatResult(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=plain(member.assigned) if news else None,
            parts=member.assigned_parts if news else {},
            records=(*taken, *transition.records),
        )

    def rebalance(self, group_id: str, topics: TopicsImage) -> list[WrittenRecord]:
        """Bump the group epoch, so that the members go on from the committed offsets (KIP-X)."""
        group = self._groups.get(group_id)
        if group is None or not group.members:
            return []
        transition = ConsumerTransition(group)
        transition.bump_epoch(topics, changed=True)
        return list(transition.records)

    def _classic_group(self, request: ConsumerHeartbeat) -> ClassicGroup | None:
        """The classic group that would become a consumer group."""
        if self._classic is None or request.group_id in self._groups:
            return None
        classic = self._classic.group(request.group_id)
        if classic is not None and request.member_epoch != JOIN_EPOCH:
            raise GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")
        return classic

    def _upgrade(self, classic: ClassicGroup, topics: TopicsImage) -> ConsumerGroup:
        """The consumer group that a classic group would become. Of an empty classic group only the
        id is kept."""
        if classic.state is State.EMPTY:
            return ConsumerGroup(classic.group_id)
        assert self._classic is not None
        check_upgrade(classic, self._migration_policy, self._group_size_max)
        try:
            return upgraded(classic, topics)
        except GroupIdNotFound:
            self._classic.keep(classic.group_id)
            raise

    def _take_over(
        self, classic: ClassicGroup, group: ConsumerGroup, now_ms: int
    ) -> tuple[WrittenRecord, ...]:
        """The classic group is gone, and its members are members of the consumer group."""
        assert self._classic is not None
        for member in group.members.values():
            self._timers.heard_of(group.group_id, member, now_ms, 0)
        return (
            *self._classic.release(classic.group_id),
            *(group.records() if group.members else ()),
        )

    def _admit(
        self, request: ConsumerHeartbeat, upgrade: ConsumerGroup | None
    ) -> tuple[ConsumerGroup, ConsumerMember | None]:
        """Check a request; returns its group and its member, or the static member that it
        replaces. A group that is about to be created is not stored yet.
        """
        joins = request.member_epoch == JOIN_EPOCH
        if upgrade is not None:
            group = upgrade
        elif request.group_id in self._groups or request.leaves:
            group = self._existing(request.group_id)
        elif joins:
            group = ConsumerGroup(request.group_id)
        else:
            raise GroupIdNotFound(f"Consumer group {request.group_id} not found.")
        static = group.static_member(request.instance_id) if request.instance_id else None
        known = group.members.get(request.member_id)
        if not request.leaves and static is None and known is None:
            self._check_size(group)
        if request.instance_id is not None:
            known = _static(request, static, known, joins=joins)
        elif known is None and not joins:
            raise UnknownMemberId(
                f"Member {request.member_id} is not a member of group {request.group_id}."
            )
        if known is not None and not request.leaves:
            check_member_epoch(request, known)
        if joins:
            check_sharing(group, request)
        if request.subscribed_regex:
            self._check_regex(group, known, request.subscribed_regex)
        return group, known

    def _check_regex(self, group: ConsumerGroup, member: ConsumerMember | None, regex: str) -> None:
        regexes = group.subscribed_regexes()
        if regex in regexes:
            return
        compile_regex(regex)
        left = member.subscribed_regex if member is not None else None
        more = len(regexes) + (left is None or regexes[left] > 1)
        if more > GROUP_REGEXES_MAX:
            raise InvalidRegularExpression(
                f"The group subscribes to {GROUP_REGEXES_MAX} regular expressions already."
            )

    def _advance(
        self,
        transition: ConsumerTransition,
        request: ConsumerHeartbeat,
        topics: TopicsImage,
        now_ms: int,
        settings: GroupSettings,
        sees: Sees | None,
    ) -> int:
        """Apply all changes of a heartbeat; returns the heartbeat interval to answer with."""
        group = transition.group
        asks = request.server_assignor is not None
        assignor = self._assignor(group) if asks else ""
        subscribes = transition.describe(request)
        asked = request.subscribed_regex is not None
        resolved = self._resolve(transition, topics, now_ms, sees, asked=asked)
        changed = subscribes or resolved or (asks and assignor != self._assignor(group))
        self._bump(transition, topics, changed=changed)
        interval_ms = self._retarget(transition, topics, now_ms, settings)
        moved = transition.reconcile(
            request.member_id,
            topics,
            request.owned,
            changed=subscribes or resolved,
            owned_parts=request.owned_parts,
        )
        member = group.members[request.member_id]
        self._timers.watch_revocation(group.group_id, member, now_ms, restarts=moved)
        return interval_ms

    def _leave(
        self,
        group: ConsumerGroup,
        member: ConsumerMember | None,
        request: ConsumerHeartbeat,
        topics: TopicsImage,
    ) -> ConsumerHeartbeatResult:
        records: tuple[WrittenRecord, ...]
        if request.member_epoch != AWAY_EPOCH:
            records = self._remove(group, {request.member_id}, topics)
        else:
            transition = ConsumerTransition(group)
            if member is not None:
                transition.leave_for_a_while(member)
            self._timers.is_away(MemberKey(group.group_id, request.member_id))
            records = transition.records
        return ConsumerHeartbeatResult(
            member_id=request.member_id, member_epoch=request.member_epoch, records=records
        )

    # Offsets ---------------------------------------------------------------------------------

    def check_commit(self, committer: Committer, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Allow a commit to a group that exists, of offsets of these partitions by topic id.

        Raises:
            KafkaError: as ``commits.check_commit``.
        """
        check_commit(self._existing(committer.group_id), committer, partitions)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Allow OffsetFetch to a group that exists.

        Raises:
            UnknownMemberId, StaleMemberEpoch: as ``commits.check_current``.
        """
        if member_id is None and member_epoch < 0:
            return
        check_current(self._existing(group_id), member_id or "", member_epoch)

    def cooperative_member(
        self, group_id: str, member_id: str, member_epoch: int, partition: Key
    ) -> tuple[ConsumerMember, Collection[str]]:
        """A member that fetches a partition in turns, and the ids of all members.

        Raises:
            GroupIdNotFound: there is no such group.
            UnknownMemberId, StaleMemberEpoch: as ``commits.check_current``; or the member does not
                own the partition.
            InvalidRequest: the member has not joined as a cooperative member.
        """
        group = self._existing(group_id)
        check_current(group, member_id, member_epoch)
        member = group.members[member_id]
        if not member.cooperative:
            raise InvalidRequest(f"Member {member_id} has not joined as a cooperative one.")
        if not member.owns(*partition):
            raise StaleMemberEpoch(f"Member {member_id} does not own the partition now.")
        return member, group.members.keys()

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        group = self._groups.get(group_id)
        return group is not None and topic in group.subscribed_topics()

    # Administration --------------------------------------------------------------------------

    def check_deletable(self, group_id: str) -> None:
        """Raise GroupIdNotFound or NonEmptyGroup unless :meth:`delete` would work."""
        if self._existing(group_id).members:
            raise NonEmptyGroup(f"Group {group_id} is not empty.")

    def delete(self, group_id: str) -> tuple[ConsumerRecord, ...]:
        """Delete an empty group.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members.
        """
        self.check_deletable(group_id)
        group = self._groups.pop(group_id)
        self._forget(group)
        return tuple(tombstones(group))

    def delete_unused(self, has_offsets: Callable[[str], bool]) -> tuple[ConsumerRecord, ...]:
        """Delete the empty groups without committed offsets (Kafka:
        ``GroupCoordinatorShard.cleanupGroupMetadata``)."""
        unused = [
            group_id
            for group_id, group in self._groups.items()
            if not group.members and not has_offsets(group_id)
        ]
        return tuple(record for group_id in unused for record in self.delete(group_id))

    # Reading ---------------------------------------------------------------------------------

    def describe(self, group_id: str) -> ConsumerGroupDescription:
        """A snapshot of one group.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        return self._existing(group_id).describe(self._assignors[0])

    def list_groups(self) -> list[tuple[str, str]]:
        """(id, state) of all groups."""
        return [(group_id, group.state) for group_id, group in self._groups.items()]


def _static(
    request: ConsumerHeartbeat,
    static: ConsumerMember | None,
    known: ConsumerMember | None,
    *,
    joins: bool,
) -> ConsumerMember | None:
    """The member of the request's instance id; None for a new member."""
    if static is None:
        if not joins:
            raise UnknownMemberId(f"Instance id {request.instance_id} is unknown.")
        return known
    if joins and static.classic is None and static.epoch != AWAY_EPOCH:
        raise UnreleasedInstanceId(
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join "
            f"the group because the instance id is owned by {static.member_id} member."
        )
    if not joins and static.member_id != request.member_id:
        raise FencedInstanceId(
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced "
            f"by member {static.member_id}."
        )
    return static
