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

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.commits import check_commit, check_current
from sharegroup.groups.consumer.group import AWAY_EPOCH, ConsumerGroup
from sharegroup.groups.consumer.heartbeat import (
    ConsumerHeartbeat,
    HeartbeatResult,
    check_member_epoch,
)
from sharegroup.groups.consumer.member import GroupDescription, Member, MemberState
from sharegroup.groups.consumer.patterns import compile_regex
from sharegroup.groups.consumer.records import (
    ConsumerRecord,
    GroupMetadata,
    ResolvedRegex,
    TargetAssignmentMetadata,
    plain,
)
from sharegroup.groups.consumer.transition import Sees, Transition
from sharegroup.groups.heartbeat import JOIN_EPOCH
from sharegroup.groups.offsets import Committer
from sharegroup.groups.pacing import Pacing, sooner
from sharegroup.groups.records import Tombstone
from sharegroup.groups.sessions import MemberKey, Sessions
from sharegroup.groups.table import GroupTable
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    NonEmptyGroup,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from sharegroup.model.limits import GROUP_REGEXES_MAX

REGEX_REFRESH_MS_MIN: Final = 1_000
"""The least time between two resolutions of all regular expressions of a group (Kafka: 10 s)."""


class ConsumerGroups(GroupTable[ConsumerGroup, ConsumerRecord]):
    """All consumer groups of this coordinator.

    Args:
        settings_of: the effective settings of a group at the time of the call.
        assignors: names of the assignors that members may ask for, the default first.
        group_size_max: how many members a group may have.
        regex_refresh_ms: how long the topics of a regular expression are trusted while no topic
            changes: rights may change.
    """

    def __init__(
        self,
        settings_of: Callable[[str], GroupSettings],
        *,
        assignors: Sequence[str] = ("uniform", "range"),
        group_size_max: int = 2**31 - 1,
        regex_refresh_ms: int = 600_000,
    ) -> None:
        super().__init__(ConsumerGroup, GroupMetadata.key_type)
        self._settings_of = settings_of
        self._assignors = tuple(assignors)
        self._group_size_max = group_size_max
        self._regex_refresh_ms = regex_refresh_ms
        self._sessions = Sessions()
        self._revocations = Sessions()
        """Until when members must have given partitions back."""
        self._pacing = Pacing()
        self._resolved: dict[str, tuple[TopicsImage, int]] = {}
        """(topics, time) of the last resolution of a group's regular expressions."""

    # Heartbeats ------------------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerHeartbeat,
        topics: TopicsImage,
        now_ms: int,
        sees: Sees | None = None,
    ) -> HeartbeatResult:
        """Apply a heartbeat that ``check_heartbeat`` has accepted. The caller must make ``records``
        durable before it answers.

        Raises, before anything has changed:
            GroupIdNotFound: the group does not exist and the member does not join.
            GroupMaxSizeReached: a new member would be one too many.
            UnknownMemberId: the member does not exist and does not join. It must join again.
            FencedMemberEpoch: the epoch is not the member's. It must join again.
            UnreleasedInstanceId: a member with that instance id has not left.
            FencedInstanceId: another member has that instance id now.
            InvalidRegularExpression: RE2 refuses it, or the group has too many.
        """
        group, known = self._admit(request)
        if request.leaves:
            return self._leave(group, known, request, topics)
        self._groups[group.group_id] = group
        settings = self._settings_of(group.group_id)
        transition = Transition(group)
        if known is not None and known.epoch == AWAY_EPOCH:
            self._end(MemberKey(group.group_id, known.member_id))
            transition.come_back(known, request.member_id)
        before = group.members.get(request.member_id)
        interval_ms = self._advance(transition, request, topics, now_ms, settings, sees)
        member = group.members[request.member_id]
        key = MemberKey(group.group_id, request.member_id)
        self._sessions.restart(key, now_ms + settings.consumer_session_timeout_ms)
        news = request.is_full or before is None or before.assigned != member.assigned
        return HeartbeatResult(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=plain(member.assigned) if news else None,
            records=transition.records,
        )

    def _admit(self, request: ConsumerHeartbeat) -> tuple[ConsumerGroup, Member | None]:
        """Check a request; returns its group and its member, or the static member that it
        replaces. A group that is about to be created is not stored yet.
        """
        joins = request.member_epoch == JOIN_EPOCH
        if request.group_id in self._groups or request.leaves:
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
        if request.subscribed_regex:
            self._check_regex(group, known, request.subscribed_regex)
        return group, known

    def _check_size(self, group: ConsumerGroup) -> None:
        if len(group.members) >= self._group_size_max:
            raise GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {self._group_size_max} "
                "members."
            )

    def _check_regex(self, group: ConsumerGroup, member: Member | None, regex: str) -> None:
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
        transition: Transition,
        request: ConsumerHeartbeat,
        topics: TopicsImage,
        now_ms: int,
        settings: GroupSettings,
        sees: Sees | None,
    ) -> int:
        """Apply all changes of a heartbeat; returns the heartbeat interval to answer with."""
        group = transition.group
        group_id, interval_ms = group.group_id, settings.consumer_heartbeat_interval_ms
        asks = request.server_assignor is not None
        assignor = self._assignor(group) if asks else ""
        subscribes = transition.describe(request)
        resolved = self._resolve(transition, request, topics, now_ms, sees)
        changed = subscribes or resolved or (asks and assignor != self._assignor(group))
        if changed or not self._pacing.is_settled(group_id, group.revision, topics):
            transition.bump_epoch(topics, changed=changed)
        if group.assignment_epoch < group.epoch:
            wait_ms = self._pacing.wait_ms(
                group_id, settings.consumer_assignment_interval_ms, now_ms
            )
            if wait_ms:
                interval_ms = sooner(interval_ms, wait_ms)
            else:
                transition.retarget(topics, self._assignor(group))
                self._pacing.assigned(group_id, now_ms)
        if group.assignment_epoch == group.epoch:
            self._pacing.settle(group_id, group.revision, topics)
        moved = transition.reconcile(
            request.member_id, topics, request.owned, changed=subscribes or resolved
        )
        self._watch_revocation(group, group.members[request.member_id], now_ms, moved=moved)
        return interval_ms

    def _assignor(self, group: ConsumerGroup) -> str:
        preferred = group.preferred_assignor()
        return preferred if preferred in self._assignors else self._assignors[0]

    def _resolve(
        self,
        transition: Transition,
        request: ConsumerHeartbeat,
        topics: TopicsImage,
        now_ms: int,
        sees: Sees | None,
    ) -> bool:
        """Resolve regular expressions that are new or due; returns whether topics changed."""
        group_id = transition.group.group_id
        last = self._resolved.get(group_id)
        due = last is None or now_ms - last[1] >= (
            self._regex_refresh_ms if last[0] is topics else REGEX_REFRESH_MS_MIN
        )
        if due:
            self._resolved[group_id] = (topics, now_ms)
        elif request.subscribed_regex is None:
            return False
        return transition.resolve(topics, sees, again=due)

    def _watch_revocation(
        self, group: ConsumerGroup, member: Member, now_ms: int, *, moved: bool
    ) -> None:
        key = MemberKey(group.group_id, member.member_id)
        if not _must_revoke(member):
            self._revocations.end(key)
        elif moved:
            self._revocations.restart(key, now_ms + max(0, member.rebalance_timeout_ms))

    def _leave(
        self,
        group: ConsumerGroup,
        member: Member | None,
        request: ConsumerHeartbeat,
        topics: TopicsImage,
    ) -> HeartbeatResult:
        transition = Transition(group)
        if request.member_epoch != AWAY_EPOCH:
            records = self._remove(group, request.member_id, topics)
        else:
            if member is not None:
                transition.leave_for_a_while(member)
            self._revocations.end(MemberKey(group.group_id, request.member_id))
            records = transition.records
        return HeartbeatResult(
            member_id=request.member_id, member_epoch=request.member_epoch, records=records
        )

    # Time ------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do, or None."""
        both = (self._sessions.next_deadline_ms(), self._revocations.next_deadline_ms())
        return min((deadline for deadline in both if deadline is not None), default=None)

    def tick(self, topics: TopicsImage, now_ms: int) -> tuple[ConsumerRecord, ...]:
        """Remove members whose session has ended, or that have not given partitions back within
        their rebalance timeout. The caller must make the records durable.
        """
        records: list[ConsumerRecord] = []
        for sessions in (self._sessions, self._revocations):
            for group_id, member_id in sessions.expired(now_ms):
                records.extend(self._remove(self._groups[group_id], member_id, topics))
        return tuple(records)

    def _remove(
        self, group: ConsumerGroup, member_id: str, topics: TopicsImage
    ) -> tuple[ConsumerRecord, ...]:
        transition = Transition(group)
        transition.remove(member_id, topics)
        self._end(MemberKey(group.group_id, member_id))
        if not group.members:
            self._pacing.forget(group.group_id)
            self._resolved.pop(group.group_id, None)
        return transition.records

    def _end(self, key: MemberKey) -> None:
        self._sessions.end(key)
        self._revocations.end(key)

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
        self._pacing.forget(group_id)
        self._resolved.pop(group_id, None)
        return (
            *(
                Tombstone(key_type=ResolvedRegex.key_type, group_id=group_id, member_id=regex)
                for regex in group.regexes
            ),
            Tombstone(key_type=TargetAssignmentMetadata.key_type, group_id=group_id),
            Tombstone(key_type=GroupMetadata.key_type, group_id=group_id),
        )

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

    def describe(self, group_id: str) -> GroupDescription:
        """A snapshot of one group.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        return self._existing(group_id).describe(self._assignors[0])

    def list_groups(self) -> list[tuple[str, str]]:
        """(id, state) of all groups."""
        return [(group_id, group.state) for group_id, group in self._groups.items()]

    # Replay ----------------------------------------------------------------------------------

    def sessions_restarted(self, now_ms: int) -> None:
        """After a replay: give every member a full session timeout for its next heartbeat, and a
        full rebalance timeout to give partitions back."""
        for group in self._groups.values():
            timeout_ms = self._settings_of(group.group_id).consumer_session_timeout_ms
            for member in group.members.values():
                key = MemberKey(group.group_id, member.member_id)
                self._sessions.restart(key, now_ms + timeout_ms)
                self._watch_revocation(group, member, now_ms, moved=True)

    def check_invariants(self) -> None:
        """Assert each group's invariants, and that exactly the members have sessions."""
        for group in self._groups.values():
            group.check_invariants()
            for member in group.members.values():
                key = MemberKey(group.group_id, member.member_id)
                if key not in self._sessions:
                    raise AssertionError(f"member {key} has no session")
                if (key in self._revocations) != _must_revoke(member):
                    raise AssertionError(f"member {key} is {member.state.name}: wrong timeout")
        if len(self._sessions) != sum(len(group.members) for group in self._groups.values()):
            raise AssertionError("there is a session without a member")


def _must_revoke(member: Member) -> bool:
    revokes = member.state is MemberState.UNREVOKED_PARTITIONS
    return revokes and member.epoch != AWAY_EPOCH


def _static(
    request: ConsumerHeartbeat, static: Member | None, known: Member | None, *, joins: bool
) -> Member | None:
    """The member of the request's instance id; None for a new one."""
    if static is None:
        if not joins:
            raise UnknownMemberId(f"Instance id {request.instance_id} is unknown.")
        return known
    if joins and static.epoch != AWAY_EPOCH:
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
