"""The time limits of members of consumer groups: a member that misses one is removed.

Members of the classic protocol have no time limit for giving partitions back. They must join when
they are told to, and sync when they have joined (Kafka: GroupMetadataManager,
scheduleConsumerGroupJoinTimeoutIfAbsent and scheduleConsumerGroupSyncTimeout).
"""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.groups.consumer.group import AWAY_EPOCH, ConsumerGroup
from sharegroup.groups.consumer.member import ConsumerMember, ConsumerMemberState
from sharegroup.groups.sessions import MemberKey, Sessions


class Timers:
    """The deadlines of all members, in milliseconds of the caller's clock."""

    def __init__(self) -> None:
        self._sessions = Sessions()
        """When a member must be heard of again; for every member."""
        self._revocations = Sessions()
        """When a member of the consumer protocol must have given partitions back."""
        self._joins = Sessions()
        """When a member of the classic protocol that was told to join again must have joined."""
        self._syncs = Sessions()
        """When a member of the classic protocol that has joined must have synced."""

    def next_deadline_ms(self) -> int | None:
        """When the first time limit ends, or None."""
        deadlines = (timer.next_deadline_ms() for timer in self._all())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def expired(self, now_ms: int) -> list[MemberKey]:
        """The members whose time is up, each once."""
        found = [key for timer in self._all() for key in timer.expired(now_ms)]
        return list(dict.fromkeys(found))

    def end(self, key: MemberKey) -> None:
        """The member is gone, or has another id now."""
        for timer in self._all():
            timer.end(key)

    def heard_of(self, group_id: str, member: ConsumerMember, now_ms: int, timeout_ms: int) -> None:
        """Restart a member's session. ``timeout_ms`` is for members of the consumer protocol:
        members of the classic protocol have a timeout of their own."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._sessions.restart(MemberKey(group_id, member.member_id), now_ms + timeout_ms)

    def watch_revocation(
        self, group_id: str, member: ConsumerMember, now_ms: int, *, restarts: bool
    ) -> None:
        """Set or end the time limit of a member of the consumer protocol for giving partitions
        back. With ``restarts`` a limit that runs begins anew."""
        key = MemberKey(group_id, member.member_id)
        if not must_revoke(member):
            self._revocations.end(key)
        elif restarts or key not in self._revocations:
            self._revocations.restart(key, now_ms + max(0, member.rebalance_timeout_ms))

    def is_away(self, key: MemberKey) -> None:
        """A static member has left for a while: only its session runs."""
        for timer in (self._revocations, self._joins, self._syncs):
            timer.end(key)

    def must_join(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """A member of the classic protocol is told to join again."""
        key = MemberKey(group_id, member.member_id)
        if key not in self._joins:
            self._joins.restart(key, now_ms + max(0, member.rebalance_timeout_ms))

    def joined(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """A member of the classic protocol has joined, and must sync."""
        key = MemberKey(group_id, member.member_id)
        self._revocations.end(key)
        self._joins.end(key)
        self._syncs.restart(key, now_ms + max(0, member.rebalance_timeout_ms))

    def synced(self, group_id: str, member: ConsumerMember) -> None:
        """A member of the classic protocol has synced."""
        self._syncs.end(MemberKey(group_id, member.member_id))

    def uses_consumer_protocol(self, group_id: str, member: ConsumerMember) -> None:
        """A member of the consumer protocol has no time limits of the classic protocol."""
        key = MemberKey(group_id, member.member_id)
        self._joins.end(key)
        self._syncs.end(key)

    def check_invariants(self, groups: Iterable[ConsumerGroup]) -> None:
        """Raise AssertionError unless exactly the members have sessions, and no member has a time
        limit of the other protocol."""
        members = 0
        for group in groups:
            for member in group.members.values():
                members += 1
                self._check(MemberKey(group.group_id, member.member_id), member)
        if len(self._sessions) != members:
            raise AssertionError("there is a session without a member")

    def _check(self, key: MemberKey, member: ConsumerMember) -> None:
        if key not in self._sessions:
            raise AssertionError(f"member {key} has no session")
        if (key in self._revocations) != must_revoke(member):
            raise AssertionError(f"member {key} is {member.state.name}: wrong timeout")
        if member.classic is None and (key in self._joins or key in self._syncs):
            raise AssertionError(f"member {key} does not use the classic protocol")

    def _all(self) -> tuple[Sessions, ...]:
        return self._sessions, self._revocations, self._joins, self._syncs


def must_revoke(member: ConsumerMember) -> bool:
    """Whether a member must give partitions back within its rebalance timeout."""
    revokes = (
        member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and member.epoch != AWAY_EPOCH
    )
    return revokes and member.classic is None
