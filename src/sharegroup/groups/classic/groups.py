"""The coordinator's machine of classic groups: all groups of one partition of
``__consumer_offsets``.

Source: Kafka class GroupMetadataManager (classicGroupJoin, classicGroupSync, classicGroupHeartbeat,
classicGroupLeave). A join or sync has a token, chosen by the caller, that is answered exactly once:
by the effects of that call or of a later call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sharegroup.groups.classic.group import Group, Replaced, State
from sharegroup.groups.classic.member import Member
from sharegroup.groups.classic.rebalance import JOIN, SYNC, Rebalances, synced
from sharegroup.groups.classic.records import (
    ClassicGroupRecord,
    ClassicRecord,
    ClassicTombstone,
)
from sharegroup.groups.classic.requests import (
    Description,
    Effects,
    Join,
    LeavingMember,
    LeftMember,
    Now,
    Refused,
    Settings,
    Sync,
)
from sharegroup.model import errors
from sharegroup.model.limits import GROUP_PROTOCOLS_MAX, PENDING_MEMBERS_MAX


class ClassicGroups:
    """Classic groups by id."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._rebalances = Rebalances(settings)

    # Requests --------------------------------------------------------------------------------

    def join(self, request: Join, token: int, now: Now) -> Effects:
        """JoinGroup. Errors are answers too."""
        group = self._groups.get(request.group_id)
        known = group is not None
        if group is None:
            if request.member_id:
                return self._refused(token, errors.UnknownMemberId(), request.member_id)
            group = Group(request.group_id, now.wall_ms)
        names = [protocol.name for protocol in request.protocols[: GROUP_PROTOCOLS_MAX + 1]]
        if not self._accepts(group, request.member_id):
            self._kick_out(group, request.member_id)
            return self._refused(token, errors.GroupMaxSizeReached())
        if len(names) > GROUP_PROTOCOLS_MAX or not group.supports(request.protocol_type, names):
            return self._refused(token, errors.InconsistentGroupProtocol(), request.member_id)
        self._groups[request.group_id] = group
        if request.member_id:
            self._join_known(group, request, token, now)
        else:
            self._join_unknown(group, request, token, now)
        if not known and group.record is None:
            # The group exists from now on, as in Kafka.
            self._rebalances.write(group, _empty_record(group))
        return self._rebalances.effects()

    def sync(self, request: Sync, token: int, now: Now) -> Effects:
        """SyncGroup. Errors are answers too."""
        group = self._groups.get(request.group_id)
        try:
            if group is None or group.state is State.EMPTY:
                raise errors.UnknownMemberId
            member = _check_sync(group, request)
        except errors.KafkaError as error:
            return self._refused(token, error)
        self._rebalances.sync_received(group, member)
        if group.state is State.STABLE:
            self._rebalances.answer(token, synced(group, member))
        else:
            if member.syncing is not None:
                self._rebalances.answer(member.syncing, Refused(errors.RebalanceInProgress()))
            member.syncing = token
            if member.member_id == group.leader:
                record = group.to_record(dict(request.assignments))
                self._rebalances.write(group, record)
        return self._rebalances.effects()

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> bool:
        """Heartbeat; returns whether the member must join again.

        Raises:
            UnknownMemberId, FencedInstanceId, IllegalGeneration: as their names say.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise errors.UnknownMemberId
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise errors.IllegalGeneration
        self._rebalances.restart_session(group, member, now)
        return group.state is State.PREPARING_REBALANCE

    def committed(self, group_id: str, member_id: str, now: Now) -> None:
        """A member has committed offsets, which shows that it is alive."""
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is None or member is None:
            return
        if group.state in (State.STABLE, State.PREPARING_REBALANCE):
            self._rebalances.restart_session(group, member, now)

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember], now: Now
    ) -> tuple[Sequence[LeftMember], Effects]:
        """LeaveGroup.

        Raises:
            UnknownMemberId: there is no such group.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise errors.UnknownMemberId
        left = [LeftMember(member, self._leave(group, member)) for member in leaving]
        if any(one.error is None for one in left) and group.state is not State.EMPTY:
            self._rebalances.prepare_or_complete(group, now)
        return left, self._rebalances.effects()

    def rebalance(self, group_id: str, now: Now) -> Effects:
        """Make the members of a stable group join again: they go on from the committed offsets."""
        group = self._groups.get(group_id)
        if group is not None and group.state is State.STABLE:
            self._rebalances.prepare(group, now)
        return self._rebalances.effects()

    def delete(self, group_id: str) -> Effects:
        """Delete an empty group.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members.
        """
        group = self._existing(group_id)
        if group.state is not State.EMPTY:
            raise errors.NonEmptyGroup
        self._delete(group)
        return self._rebalances.effects()

    def delete_unused(self, has_offsets: Callable[[str], bool]) -> Effects:
        """Delete the empty groups without committed offsets, in which nobody is joining (Kafka:
        ``GroupCoordinatorShard.cleanupExpiredOffsets``)."""
        for group in list(self._groups.values()):
            if group.state is State.EMPTY and not group.pending and not has_offsets(group.group_id):
                self._delete(group)
        return self._rebalances.effects()

    # Other types of group --------------------------------------------------------------------

    def release(self, group_id: str) -> Effects:
        """Forget a group that becomes a consumer group. Members that wait for an answer are told to
        join again."""
        group = self._groups[group_id]
        self._stop_waiting(group)
        self._delete(group)
        return self._rebalances.effects()

    def keep(self, group_id: str, now: Now) -> Effects:
        """A group cannot become a consumer group. Members that wait for an answer are told to join
        again all the same (``GroupMetadataManager.convertToConsumerGroup``)."""
        group = self._groups[group_id]
        for member in self._stop_waiting(group):
            self._rebalances.restart_session(group, member, now)
        return self._rebalances.effects()

    def _stop_waiting(self, group: Group) -> list[Member]:
        waiting = [member for member in group.members.values() if member.waits]
        for member in waiting:
            self._rebalances.refuse(
                group, member, Refused(errors.RebalanceInProgress(), member.member_id)
            )
        return waiting

    def adopt(self, group: Group, now: Now, *, rebalance: bool) -> Effects:
        """Take over a stable group that was a consumer group. ``rebalance`` makes its members join
        again at once."""
        group.since_ms = now.wall_ms
        self._groups[group.group_id] = group
        self._rebalances.write(group, group.to_record())
        for member in group.members.values():
            self._rebalances.restart_session(group, member, now)
        if rebalance:
            self._rebalances.prepare(group, now)
        return self._rebalances.effects()

    # Time and durability ---------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do."""
        return self._rebalances.next_deadline_ms()

    def tick(self, now: Now) -> Effects:
        """Remove silent members, end phases whose time is over."""
        for group_id, member_id in self._rebalances.expired_sessions(now):
            group = self._groups.get(group_id)
            if group is not None:
                self._expire(group, member_id, now)
        for group_id, phase in self._rebalances.expired_phases(now):
            group = self._groups.get(group_id)
            if group is not None and phase == JOIN:
                self._rebalances.join_phase_over(group, now)
            elif group is not None:
                self._rebalances.sync_phase_over(group, now)
        return self._rebalances.effects()

    def durable(self, records: Sequence[ClassicRecord], now: Now) -> Effects:
        """These records are durable: answer the requests that waited for them."""
        for record in records:
            group = self._groups.get(record.group_id)
            if group is None or not isinstance(record, ClassicGroupRecord):
                continue
            if record.generation != group.generation:
                continue  # the group has gone on
            if group.state is State.COMPLETING_REBALANCE and record.members:
                assignments = {m.member_id: m.assignment for m in record.members}
                self._rebalances.assigned(group, assignments, now)
            elif group.state is State.STABLE:
                self._answer_replaced(group, record, now)
        return self._rebalances.effects()

    # The log ---------------------------------------------------------------------------------

    def replay(self, record: ClassicRecord) -> None:
        """Apply a record.

        Raises:
            MalformedMessage: the record contradicts itself; nothing has changed.
        """
        if isinstance(record, ClassicTombstone):
            self._groups.pop(record.group_id, None)
        else:
            self._groups[record.group_id] = Group.replayed(record)

    def replayed(self, now: Now) -> Effects:
        """All records are applied: the sessions of all members begin. Groups over the size limit,
        which may have changed, rebalance."""
        for group in self._groups.values():
            for member in group.members.values():
                self._rebalances.restart_session(group, member, now)
            if len(group.members) > self._settings.size_max:
                self._rebalances.prepare(group, now)
        return self._rebalances.effects()

    def record(self, group_id: str) -> ClassicRecord | None:
        """The last record of a group."""
        group = self._groups.get(group_id)
        return None if group is None else group.record

    # Queries ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def completed(self) -> int:
        """Rebalances completed since the start."""
        return self._rebalances.completed

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return group_id in self._groups

    def group_ids(self) -> list[str]:
        """All groups."""
        return list(self._groups)

    def list_groups(self) -> Iterator[tuple[str, str]]:
        """(id, state) of all groups."""
        return ((group.group_id, group.state) for group in self._groups.values())

    def group(self, group_id: str) -> Group | None:
        """A group, to be read only."""
        return self._groups.get(group_id)

    def describe(self, group_id: str) -> Description:
        """A snapshot of a group. Raises GroupIdNotFound."""
        return self._existing(group_id).describe()

    def check_invariants(self) -> None:
        """Raise AssertionError if a group or its timers are inconsistent."""
        for group in self._groups.values():
            group.check_invariants()
            name = f"classic group {group.group_id!r}"
            for member in group.members.values():
                if not (member.excused or self._rebalances.has_session(group, member.member_id)):
                    raise AssertionError(f"{name}: {member.member_id} has no session")
            for member_id in group.pending:
                if not self._rebalances.has_session(group, member_id):
                    raise AssertionError(f"{name}: pending {member_id} has no session")
            preparing = group.state is State.PREPARING_REBALANCE
            if preparing != self._rebalances.has_phase(group, JOIN):
                raise AssertionError(f"{name}: state {group.state} and the join deadline disagree")
            if bool(group.unsynced) != self._rebalances.has_phase(group, SYNC):
                raise AssertionError(f"{name}: unsynced members and the sync deadline disagree")

    # Joining ---------------------------------------------------------------------------------

    def _accepts(self, group: Group, member_id: str) -> bool:
        """Whether the group has room. While members join, only members that have joined count: so
        the last members of a group that is too large are kept out."""
        if group.state is State.EMPTY:
            return bool(member_id) or len(group.pending) < PENDING_MEMBERS_MAX
        size_max = self._settings.size_max
        member = group.members.get(member_id)
        if group.state is State.PREPARING_REBALANCE:
            fits = (member is not None and member.joining is not None) or group.waiting < size_max
        else:
            fits = member is not None or len(group.members) < size_max
        return fits and (bool(member_id) or len(group.pending) < PENDING_MEMBERS_MAX)

    def _kick_out(self, group: Group, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.remove(group, member, errors.UnknownMemberId())
        elif member_id in group.pending:
            group.remove(member_id)
            self._rebalances.end_session(group, member_id)

    def _join_unknown(self, group: Group, request: Join, token: int, now: Now) -> None:
        """A client without a member id."""
        member_id = request.new_member_id
        existing = group.instances.get(request.instance_id or "")
        if existing is not None:
            self._take_over(group, request, group.members[existing], token, now)
        elif request.id_required and request.instance_id is None:
            group.pending.add(member_id)
            self._rebalances.start_session(group, member_id, request.session_timeout_ms, now)
            self._rebalances.answer(token, Refused(errors.MemberIdRequired(), member_id))
        else:
            member = Member.joined(request, member_id)
            self._rebalances.add(group, member, request.protocol_type, token, now)

    def _join_known(self, group: Group, request: Join, token: int, now: Now) -> None:
        """A client with a member id."""
        member_id = request.member_id
        if member_id in group.pending:
            if request.instance_id is not None:
                error = errors.InvalidRequest("a static member joins without a member id")
                self._rebalances.answer(token, Refused(error, member_id))
                return
            member = Member.joined(request, member_id)
            self._rebalances.add(group, member, request.protocol_type, token, now)
            return
        try:
            member = group.check_member(member_id, request.instance_id)
        except errors.KafkaError as error:
            self._rebalances.answer(token, Refused(error, member_id))
            return
        same = member.protocols == tuple(request.protocols)
        leads = group.leader == member_id
        if same and (
            group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and not leads)
        ):
            # It has missed the answer. A leader that joins a stable group wants a rebalance.
            self._rebalances.answer(token, group.joined(member_id))
            return
        self._update(group, member, request, token)
        self._rebalances.prepare_or_complete(group, now)

    def _update(self, group: Group, member: Member, request: Join, token: int) -> None:
        if member.joining is not None:  # an earlier try, whose client has given up
            self._rebalances.answer_join(
                group, member, Refused(errors.RebalanceInProgress(), member.member_id)
            )
        group.update(member, request, token)

    def _take_over(self, group: Group, request: Join, old: Member, token: int, now: Now) -> None:
        """A static member comes back without its id, which means that it was restarted. In a stable
        group that goes on with its protocol this is no reason to rebalance."""
        leader = group.leader or ""
        member = self._rebalances.take_over(group, old, request.new_member_id, now)
        self._update(group, member, request, token)
        if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
            can_skip = request.can_skip_assignment
            told = (group.leader or "") if can_skip else leader
            group.replaced[token] = Replaced(member.member_id, told, can_skip)
            self._rebalances.write(group, group.to_record())
        else:
            self._rebalances.prepare_or_complete(group, now)

    def _answer_replaced(self, group: Group, record: ClassicGroupRecord, now: Now) -> None:
        written = {member.member_id for member in record.members}
        for token, replaced in list(group.replaced.items()):
            member = group.members.get(replaced.member_id)
            if member is None or member.joining != token or member.member_id not in written:
                continue
            answer = group.joined_again(replaced)
            self._rebalances.answer_join(group, member, answer)
            self._rebalances.restart_session(group, member, now)

    # Leaving ---------------------------------------------------------------------------------

    def _leave(self, group: Group, leaving: LeavingMember) -> errors.KafkaError | None:
        member_id, instance_id = leaving
        if member_id in group.pending:
            group.remove(member_id)
            self._rebalances.end_session(group, member_id)
            return None
        try:
            if not member_id:
                if instance_id is None or instance_id not in group.instances:
                    raise errors.UnknownMemberId
                member_id = group.instances[instance_id]
            member = group.check_member(member_id, instance_id)
        except errors.KafkaError as error:
            return error
        self._rebalances.remove(group, member, errors.UnknownMemberId())
        return None

    def _expire(self, group: Group, member_id: str, now: Now) -> None:
        """The session of a member or of a pending member is over."""
        member = group.members.get(member_id)
        if member_id in group.pending:
            group.remove(member_id)
        elif member is None or member.excused:
            return
        else:
            self._rebalances.remove(group, member, errors.UnknownMemberId())
        if group.state is State.PREPARING_REBALANCE:
            if group.all_joined:
                self._rebalances.complete_when_quiet(group, now)
        elif member is not None:
            self._rebalances.prepare(group, now)

    # -----------------------------------------------------------------------------------------

    def _delete(self, group: Group) -> None:
        self._rebalances.forget(group)
        del self._groups[group.group_id]
        self._rebalances.write_other(ClassicTombstone(group_id=group.group_id))

    def _existing(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def _refused(self, token: int, error: errors.KafkaError, member_id: str = "") -> Effects:
        self._rebalances.answer(token, Refused(error, member_id))
        return self._rebalances.effects()


def _empty_record(group: Group) -> ClassicGroupRecord:
    """The record of a new group whose first members are still joining."""
    return ClassicGroupRecord(
        group_id=group.group_id,
        protocol_type="",
        generation=0,
        protocol_name=None,
        leader=None,
        since_ms=group.since_ms,
    )


def _check_sync(group: Group, request: Sync) -> Member:
    """The member that syncs. Raises KafkaError."""
    member = group.check_member(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise errors.IllegalGeneration
    if request.protocol_type not in (None, group.protocol_type) or (
        request.protocol_name not in (None, group.protocol_name)
    ):
        raise errors.InconsistentGroupProtocol
    if group.state is State.PREPARING_REBALANCE:
        raise errors.RebalanceInProgress
    return member
