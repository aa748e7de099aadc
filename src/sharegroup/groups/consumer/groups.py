"""The membership side of a consumer group coordinator: heartbeats, sessions, assignment (KIP-848;
Kafka class GroupMetadataManager, its consumer half).

**Decide, apply, persist, answer.** A request is checked completely, then applied at once. The
records of the change are returned, and the caller must make them durable, in order, before it
answers. If that fails, the caller must throw this object away and replay the log.

Times are milliseconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.assigning import Assigning
from sharegroup.groups.consumer.classic_members import ClassicMembers
from sharegroup.groups.consumer.commits import check_commit, check_current
from sharegroup.groups.consumer.group import AWAY_EPOCH, ConsumerGroup
from sharegroup.groups.consumer.heartbeat import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    check_member_epoch,
    check_released,
    check_sharing,
)
from sharegroup.groups.consumer.member import ConsumerGroupSnapshot, ConsumerMember
from sharegroup.groups.consumer.members import Members
from sharegroup.groups.consumer.migration import ClassicSide, Migration, MigrationPolicy, tombstones
from sharegroup.groups.consumer.parts import Key
from sharegroup.groups.consumer.patterns import Matches, compile_regex
from sharegroup.groups.consumer.records import (
    ConsumerRecord,
    WrittenRecord,
    plain,
)
from sharegroup.groups.consumer.timers import Timers
from sharegroup.groups.consumer.transition import ConsumerTransition, Sees
from sharegroup.groups.modern_group import JOIN_EPOCH
from sharegroup.groups.offsets import CommitClient
from sharegroup.groups.sessions import MemberKey
from sharegroup.groups.table import GroupTable
from sharegroup.groups.topics import TopicsImage
from sharegroup.model import errors
from sharegroup.model.limits import GROUP_REGEXES_MAX


class ConsumerGroups:
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

    def __init__(
        self,
        settings_of: Callable[[str], GroupSettings],
        *,
        assignors: Sequence[str] = ("uniform", "range"),
        group_size_max: int = 2**31 - 1,
        regex_refresh_ms: int = 600_000,
        classic: ClassicSide | None = None,
        migration_policy: MigrationPolicy = MigrationPolicy.DISABLED,
        classic_size_max: int = 2**31 - 1,
        matches: Matches | None = None,
    ) -> None:
        self._settings_of = settings_of
        self._timers = Timers()
        self._migration = Migration(classic, migration_policy, group_size_max, classic_size_max)
        self.table: Final = GroupTable[ConsumerGroup, ConsumerRecord](ConsumerGroup)
        self.assigning: Final = Assigning(
            self.table, assignors, regex_refresh_ms, matches or Matches()
        )
        self._members = Members(
            self.table, self._timers, self.assigning, self._migration, group_size_max
        )
        self.classic_members: Final = ClassicMembers(
            settings_of, self.table, self._timers, self.assigning, self._members, self._migration
        )

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
        upgrade = None if request.group_id in self.table else self._upgrade(request, topics)
        group, known = self._admit(request, upgrade)
        if request.leaves:
            return self._leave(group, known, request, topics)
        settings = self._settings_of(group.group_id)
        taken: tuple[WrittenRecord, ...] = ()
        if upgrade is not None:
            taken = self._take_over(group, now_ms)
        self.table.add(group)
        transition = ConsumerTransition(group)
        if known is not None and (
            known.epoch == AWAY_EPOCH or known.member_id != request.member_id
        ):
            self._members.replace_static(transition, known.member_id, request.member_id)
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
        group = self.table.get(group_id)
        if group is None or not group.members:
            return []
        transition = ConsumerTransition(group)
        transition.bump_epoch(topics, changed=True)
        return list(transition.records)

    def _upgrade(self, request: ConsumerHeartbeat, topics: TopicsImage) -> ConsumerGroup | None:
        """The consumer group that a classic group would become."""
        group_id = request.group_id
        if request.member_epoch == JOIN_EPOCH:
            return self._migration.upgraded(group_id, topics)
        if self._migration.is_classic(group_id):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return None

    def _take_over(self, group: ConsumerGroup, now_ms: int) -> tuple[WrittenRecord, ...]:
        """The classic group is gone, and its members are members of the consumer group."""
        for member in group.members.values():
            self._timers.heard_of(group.group_id, member, now_ms, 0)
        return self._migration.taken_over(group)

    def _admit(
        self, request: ConsumerHeartbeat, upgrade: ConsumerGroup | None
    ) -> tuple[ConsumerGroup, ConsumerMember | None]:
        """Check a request; returns its group and its member, or the static member that it
        replaces. A group that is about to be created is not stored yet.
        """
        joins = request.member_epoch == JOIN_EPOCH
        if upgrade is not None:
            group = upgrade
        elif request.group_id in self.table or request.leaves:
            group = self.table.existing(request.group_id)
        elif joins:
            group = ConsumerGroup(request.group_id)
        else:
            raise errors.GroupIdNotFound(f"Consumer group {request.group_id} not found.")
        static = group.static_member(request.instance_id) if request.instance_id else None
        if not request.leaves and static is None and request.member_id not in group.members:
            self._members.check_size(group)
        known = _known(group, request, static)
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
            raise errors.InvalidRegularExpression(
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
        assignor = self.assigning.assignor_of(group) if asks else ""
        subscribes = transition.describe(request)
        asked = request.subscribed_regex is not None
        resolved = self.assigning.resolve(transition, topics, now_ms, sees, asked=asked)
        changed = subscribes or resolved or (asks and assignor != self.assigning.assignor_of(group))
        self.assigning.bump(transition, topics, changed=changed)
        interval_ms = self.assigning.retarget(transition, topics, now_ms, settings)
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
            records = self._members.remove(group, {request.member_id}, topics)
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

    def check_commit(self, committer: CommitClient, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Allow a commit to a group that exists, of offsets of these partitions by topic id.

        Raises:
            KafkaError: as ``commits.check_commit``.
        """
        check_commit(self.table.existing(committer.group_id), committer, partitions)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Allow OffsetFetch to a group that exists.

        Raises:
            UnknownMemberId, StaleMemberEpoch: as ``commits.check_current``.
        """
        if member_id is None and member_epoch < 0:
            return
        check_current(self.table.existing(group_id), member_id or "", member_epoch)

    def cooperative_member(
        self, group_id: str, member_id: str, member_epoch: int, partition: Key
    ) -> tuple[ConsumerMember, Collection[str]]:
        """A member that fetches a partition in turns, and the ids of all members that own the
        partition, in part or whole.

        Raises:
            GroupIdNotFound: there is no such group.
            UnknownMemberId, StaleMemberEpoch: as ``commits.check_current``; or the member does not
                own the partition.
            InvalidRequest: the member has not joined as a cooperative member.
        """
        group = self.table.existing(group_id)
        check_current(group, member_id, member_epoch)
        member = group.members[member_id]
        if not member.cooperative:
            raise errors.InvalidRequest(f"Member {member_id} has not joined as a cooperative one.")
        if not member.owns(*partition):
            raise errors.StaleMemberEpoch(f"Member {member_id} does not own the partition now.")
        return member, group.owners_of(*partition)

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        group = self.table.get(group_id)
        return group is not None and topic in group.subscribed_topics()

    # Administration --------------------------------------------------------------------------

    def check_deletable(self, group_id: str) -> None:
        """Raise GroupIdNotFound or NonEmptyGroup unless :meth:`delete` would work."""
        if self.table.existing(group_id).members:
            raise errors.NonEmptyGroup(f"Group {group_id} is not empty.")

    def delete(self, group_id: str) -> tuple[ConsumerRecord, ...]:
        """Delete an empty group.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members.
        """
        self.check_deletable(group_id)
        group = self.table.existing(group_id)
        self.table.remove(group_id)
        self.assigning.forget(group_id)
        return tuple(tombstones(group))

    def delete_unused(self, has_offsets: Callable[[str], bool]) -> tuple[ConsumerRecord, ...]:
        """Delete the empty groups without committed offsets (Kafka:
        ``GroupCoordinatorShard.cleanupGroupMetadata``)."""
        unused = [
            group.group_id
            for group in self.table
            if not group.members and not has_offsets(group.group_id)
        ]
        return tuple(record for group_id in unused for record in self.delete(group_id))

    # Reading ---------------------------------------------------------------------------------

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return group_id in self.table

    def group_ids(self) -> list[str]:
        """The groups that exist."""
        return self.table.group_ids()

    def has_members(self, group_id: str) -> bool:
        """Whether there is such a group, and it has members."""
        group = self.table.get(group_id)
        return group is not None and bool(group.members)

    def describe(self, group_id: str) -> ConsumerGroupSnapshot:
        """A snapshot of one group.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        return self.table.existing(group_id).describe(self.assigning.default_assignor)

    def list_groups(self) -> list[tuple[str, str]]:
        """(id, state) of all groups."""
        return [(group.group_id, group.state) for group in self.table]

    # Time ------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do, or None."""
        return self._timers.next_deadline_ms()

    def tick(self, topics: TopicsImage, now_ms: int) -> tuple[WrittenRecord, ...]:
        """Remove members whose session has ended, that have not given partitions back within their
        rebalance timeout, or that have not joined or synced within it. The caller must make the
        records durable.
        """
        records: list[WrittenRecord] = []
        for group_id, member_id in self._timers.expired(now_ms):
            group = self.table.get(group_id)
            if group is not None and member_id in group.members:
                records.extend(self._members.remove(group, {member_id}, topics))
        return tuple(records)

    # Replay ----------------------------------------------------------------------------------

    def sessions_restarted(self, now_ms: int) -> None:
        """After a replay: give every member a full session timeout for its next heartbeat, and a
        full rebalance timeout to give partitions back."""
        for group in self.table:
            self.assigning.at_rest(group)
            timeout_ms = self._settings_of(group.group_id).consumer_session_timeout_ms
            for member in group.members.values():
                self._timers.heard_of(group.group_id, member, now_ms, timeout_ms)
                self._timers.watch_revocation(group.group_id, member, now_ms, restarts=True)

    def check_invariants(self) -> None:
        """Assert each group's invariants, and that members have the deadlines that they need."""
        for group in self.table:
            group.check_invariants()
            if self._migration.is_classic(group.group_id):
                raise AssertionError(f"group {group.group_id!r} has two types")
        self._timers.check_invariants(self.table)


def _known(
    group: ConsumerGroup, request: ConsumerHeartbeat, static: ConsumerMember | None
) -> ConsumerMember | None:
    """The member, or the member ``static`` that it replaces; None for a new member."""
    if request.member_epoch != JOIN_EPOCH:
        if request.instance_id is not None:
            return group.own_static_member(request.member_id, request.instance_id)
        return group.member(request.member_id)
    if static is None:
        return group.members.get(request.member_id)
    check_released(request, static)
    return static
