"""From one generation of a classic group to the next (Kafka class GroupMetadataManager).

**Join.** A rebalance begins with :meth:`Rebalances.prepare`: all members must join again, within
the longest of their rebalance timeouts. Members that have not joined by then are removed. A group
that was empty waits a little for more members. Then the joins are answered. A large group to which
new members come waits until no new member has come for a short while: a member that comes too late
costs all members another rebalance, which they learn of with their next heartbeats.

**Sync.** The members send SyncGroup, the leader with all assignments. The assignments are written
as one record. When it is durable, every sync is answered, and the group is stable.

Each token is answered exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.groups.classic.group import Group, State
from sharegroup.groups.classic.member import Member
from sharegroup.groups.classic.records import ClassicGroupRecord, ClassicRecord
from sharegroup.groups.classic.requests import (
    ClassicAnswer,
    Effects,
    Joined,
    Now,
    Refused,
    Settings,
    Synced,
)
from sharegroup.groups.sessions import MemberKey, Sessions
from sharegroup.model import errors

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait for the answer to its first join. It cannot send heartbeats
yet."""

RETRY_MS_MIN: Final = 1_000
"""How soon to look again whether silent static members are gone, at the earliest."""

QUIET_MS_PER_MEMBER: Final = 5
"""How long a rebalance waits after its last new member, for each member that has joined."""

QUIET_MS_MAX: Final = 500
"""The longest that a rebalance waits after its last new member."""

QUIET_TOTAL_MS_MAX: Final = 3_000
"""How long after its begin a rebalance may wait for more new members. Kafka's default for
``group.initial.rebalance.delay.ms``, which has about the same purpose."""

JOIN: Final = "join"
SYNC: Final = "sync"


class Rebalances:
    """The timers of all groups, and the records and answers that a call has led to so far."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.completed = 0
        """Generations whose assignments were handed out since the start."""
        self._sessions = Sessions()
        self._phases = Sessions()
        """Deadlines of the join phase and of the sync phase, by (group id, JOIN or SYNC)."""
        self._records: list[ClassicRecord] = []
        self._answers: list[ClassicAnswer] = []

    # What a call leads to --------------------------------------------------------------------

    def effects(self) -> Effects:
        """The records and answers collected since the last call of this method."""
        effects = Effects(self._records, self._answers)
        self._records, self._answers = [], []
        return effects

    def answer(self, token: int, result: Joined | Synced | Refused) -> None:
        """Answer a request."""
        self._answers.append(ClassicAnswer(token, result))

    def write(self, group: Group, record: ClassicGroupRecord) -> None:
        """Write the group's record."""
        group.record = record
        self._records.append(record)

    def write_other(self, record: ClassicRecord) -> None:
        """Write a record that leaves no group."""
        self._records.append(record)

    # Timers ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When the first session or phase ends."""
        times = (self._sessions.next_deadline_ms(), self._phases.next_deadline_ms())
        return min((at for at in times if at is not None), default=None)

    def expired_sessions(self, now: Now) -> list[MemberKey]:
        """End and return the sessions that are over."""
        return self._sessions.expired(now.monotonic_ms)

    def expired_phases(self, now: Now) -> list[MemberKey]:
        """End and return the phases that are over."""
        return self._phases.expired(now.monotonic_ms)

    def restart_session(self, group: Group, member: Member, now: Now) -> None:
        """The member has been heard of, or is expected to be."""
        self.start_session(group, member.member_id, member.session_timeout_ms, now)

    def start_session(self, group: Group, member_id: str, timeout_ms: int, now: Now) -> None:
        """Remove the member after this time, unless it is heard of."""
        deadline_ms = now.monotonic_ms + timeout_ms
        self._sessions.restart(MemberKey(group.group_id, member_id), deadline_ms)

    def end_session(self, group: Group, member_id: str) -> None:
        """The member is gone."""
        self._sessions.end(MemberKey(group.group_id, member_id))

    def forget(self, group: Group) -> None:
        """The group is deleted."""
        for member_id in (*group.members, *group.pending):
            self.end_session(group, member_id)
        self._phases.end(MemberKey(group.group_id, JOIN))
        self._phases.end(MemberKey(group.group_id, SYNC))

    def has_session(self, group: Group, member_id: str) -> bool:
        """Whether silence would remove the member."""
        return MemberKey(group.group_id, member_id) in self._sessions

    def has_phase(self, group: Group, phase: str) -> bool:
        """Whether a deadline of that phase is set."""
        return MemberKey(group.group_id, phase) in self._phases

    def _phase_ends(self, group: Group, phase: str, after_ms: int, now: Now) -> None:
        self._phases.restart(MemberKey(group.group_id, phase), now.monotonic_ms + after_ms)

    # Joining ---------------------------------------------------------------------------------

    def add(self, group: Group, member: Member, protocol_type: str, token: int, now: Now) -> None:
        """A new member joins: rebalance."""
        member.is_new = True
        member.joining = token
        group.member_added = group.member_added or group.first_rebalance is not None
        group.add(member, protocol_type)
        group.joined_ms = now.monotonic_ms
        self.start_session(group, member.member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        self.prepare_or_complete(group, now)

    def remove(self, group: Group, member: Member, error: errors.KafkaError) -> None:
        """Remove a member; its waiting requests are refused."""
        self.refuse(group, member, Refused(error))
        group.remove(member.member_id)
        self.end_session(group, member.member_id)

    def refuse(self, group: Group, member: Member, refused: Refused) -> None:
        """Answer the waiting requests of a member with an error."""
        if member.joining is not None:
            self.answer_join(group, member, refused)
        if member.syncing is not None:
            self.answer(member.syncing, refused)
            member.syncing = None

    def answer_join(self, group: Group, member: Member, result: Joined | Refused) -> None:
        """Answer the waiting join of a member."""
        assert member.joining is not None
        group.replaced.pop(member.joining, None)
        self.answer(member.joining, result)
        member.joining = None
        group.waiting -= 1

    def prepare_or_complete(self, group: Group, now: Now) -> None:
        """Begin a rebalance, or go on with the rebalance that is under way."""
        if group.state is not State.PREPARING_REBALANCE:
            self.prepare(group, now)
        elif group.first_rebalance is None:
            self.complete_when_quiet(group, now)

    def prepare(self, group: Group, now: Now) -> None:
        """Begin a rebalance."""
        if group.state is State.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    self.answer(member.syncing, Refused(errors.RebalanceInProgress()))
                    member.syncing = None
                    self.restart_session(group, member, now)
        group.unsynced.clear()
        group.replaced.clear()
        self._phases.end(MemberKey(group.group_id, SYNC))
        was_empty = group.state is State.EMPTY
        group.move_to(State.PREPARING_REBALANCE, now.wall_ms)
        if was_empty:
            delay_ms = self.settings.initial_rebalance_delay_ms
            left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.first_rebalance = (delay_ms, left_ms)
            group.member_added = False
            self._phase_ends(group, JOIN, delay_ms, now)
        else:
            group.prepared_ms = now.monotonic_ms
            group.join_deadline_ms = now.monotonic_ms + group.rebalance_timeout_ms
            self.complete_when_quiet(group, now)

    def complete_when_quiet(self, group: Group, now: Now) -> None:
        """Complete the join phase if nobody is missing and no more new members are expected. Else
        look again when this may be the case, or when the time for joining is over."""
        end_ms = group.join_deadline_ms
        if group.all_joined:
            end_ms = min(end_ms, self._quiet_ms(group), group.prepared_ms + QUIET_TOTAL_MS_MAX)
            if end_ms <= now.monotonic_ms:
                self.complete_join(group, now)
                return
        self._phase_ends(group, JOIN, end_ms - now.monotonic_ms, now)

    def _quiet_ms(self, group: Group) -> int:
        """Until when a group waits for more new members."""
        if group.waiting < self.settings.quiet_members_min:
            return group.joined_ms
        return group.joined_ms + min(QUIET_MS_MAX, group.waiting * QUIET_MS_PER_MEMBER)

    def join_phase_over(self, group: Group, now: Now) -> None:
        """The time for joining is over. While new members keep coming, a first rebalance waits
        longer, up to the rebalance timeout."""
        if group.state is not State.PREPARING_REBALANCE:
            return
        if group.first_rebalance is not None and group.member_added:
            delay_ms, left_ms = group.first_rebalance
            if left_ms:
                group.member_added = False
                next_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
                group.first_rebalance = (next_ms, max(left_ms - delay_ms, 0))
                self._phase_ends(group, JOIN, next_ms, now)
                return
        elif group.first_rebalance is None and now.monotonic_ms < group.join_deadline_ms:
            self.complete_when_quiet(group, now)
            return
        self.complete_join(group, now)

    def complete_join(self, group: Group, now: Now) -> None:
        """End the join phase: remove dynamic members that have not joined, begin a generation and
        answer the joins."""
        self._phases.end(MemberKey(group.group_id, JOIN))
        for member in list(group.members.values()):
            if member.joining is None and member.instance_id is None:
                self.remove(group, member, errors.UnknownMemberId())
        if group.members and not group.elect():
            # Only silent static members are left: their sessions will end.
            group.first_rebalance = None
            again_ms = max(group.rebalance_timeout_ms, RETRY_MS_MIN)
            group.join_deadline_ms = now.monotonic_ms + again_ms
            self._phase_ends(group, JOIN, again_ms, now)
            return
        group.begin_generation(now.wall_ms)
        if group.state is State.EMPTY:
            self.write(group, group.to_record())
            return
        for member in group.members.values():
            if member.joining is not None:
                self.answer_join(group, member, group.joined(member.member_id))
            self.restart_session(group, member, now)
            member.is_new = False
            group.unsynced.add(member.member_id)
        self._phase_ends(group, SYNC, group.rebalance_timeout_ms, now)

    # Syncing ---------------------------------------------------------------------------------

    def sync_received(self, group: Group, member: Member) -> None:
        """A member has sent its SyncGroup."""
        group.unsynced.discard(member.member_id)
        if not group.unsynced:
            self._phases.end(MemberKey(group.group_id, SYNC))

    def sync_phase_over(self, group: Group, now: Now) -> None:
        """Remove the members that have not sent SyncGroup in time."""
        if not group.unsynced:
            return
        for member_id in sorted(group.unsynced):
            self.remove(group, group.members[member_id], errors.UnknownMemberId())
        self.prepare(group, now)

    def assigned(self, group: Group, assignments: Mapping[str, bytes], now: Now) -> None:
        """The leader's assignments are durable: the group is stable."""
        group.move_to(State.STABLE, now.wall_ms)
        self.completed += 1
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                self.answer(member.syncing, synced(group, member))
                member.syncing = None
                self.restart_session(group, member, now)

    # Static members --------------------------------------------------------------------------

    def take_over(self, group: Group, old: Member, member_id: str, now: Now) -> Member:
        """A static member comes back with a new id, and fences its old id."""
        self.refuse(group, old, Refused(errors.FencedInstanceId(), old.member_id))
        member = old.renamed(member_id)
        group.replace(old, member)
        self.end_session(group, old.member_id)
        if not group.unsynced:
            self._phases.end(MemberKey(group.group_id, SYNC))
        self.restart_session(group, member, now)
        return member


def synced(group: Group, member: Member) -> Synced:
    """The answer to a sync of a stable group."""
    return Synced(group.protocol_type, group.protocol_name, member.assignment)
