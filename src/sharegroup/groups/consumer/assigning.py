"""What the two kinds of members of consumer groups share: their groups, the assignment, and how
they are removed (Kafka class GroupMetadataManager).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.group import ConsumerGroup
from sharegroup.groups.consumer.migration import (
    ClassicSide,
    MigrationPolicy,
    downgraded,
    tombstones,
)
from sharegroup.groups.consumer.patterns import Matches
from sharegroup.groups.consumer.records import ConsumerRecord, WrittenRecord
from sharegroup.groups.consumer.timers import Timers
from sharegroup.groups.consumer.transition import ConsumerTransition, Sees
from sharegroup.groups.pacing import Pacing, sooner
from sharegroup.groups.sessions import MemberKey
from sharegroup.groups.table import GroupTable
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.errors import GroupMaxSizeReached

REGEX_REFRESH_MS_MIN: Final = 1_000
"""The least time between two resolutions of all regular expressions of a group (Kafka: 10 s)."""


class Assigning(GroupTable[ConsumerGroup, ConsumerRecord]):
    """All consumer groups of this coordinator; see ``membership.ConsumerGroups``."""

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
        super().__init__(ConsumerGroup)
        self._settings_of = settings_of
        self._assignors = tuple(assignors)
        self._group_size_max = group_size_max
        self._regex_refresh_ms = regex_refresh_ms
        self._classic = classic
        self._migration_policy = migration_policy
        self._classic_size_max = classic_size_max
        self.matches = matches or Matches()
        self._timers = Timers()
        self._pacing = Pacing()
        self._resolved: dict[str, tuple[TopicsImage, int]] = {}
        """(topics, time) of the last resolution of a group's regular expressions."""

    # Joining ---------------------------------------------------------------------------------

    def _check_size(self, group: ConsumerGroup) -> None:
        if len(group.members) >= self._group_size_max:
            raise GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {self._group_size_max} "
                "members."
            )

    def _replace_static(self, transition: ConsumerTransition, old_id: str, new_id: str) -> None:
        """A static member comes back, mostly under a new id."""
        group = transition.group
        self._timers.end(MemberKey(group.group_id, old_id))
        transition.come_back(group.members[old_id], new_id)

    # Assignment ------------------------------------------------------------------------------

    def _bump(self, transition: ConsumerTransition, topics: TopicsImage, *, changed: bool) -> None:
        """Bump the group epoch if a new assignment is needed."""
        group = transition.group
        if changed or not self._pacing.is_settled(group.group_id, group.revision, topics):
            transition.bump_epoch(topics, changed=changed)

    def _retarget(
        self,
        transition: ConsumerTransition,
        topics: TopicsImage,
        now_ms: int,
        settings: GroupSettings,
    ) -> int:
        """Compute the target assignment if it is due; returns the heartbeat interval to answer
        with."""
        group = transition.group
        group_id = group.group_id
        waits_ms = self._pacing.turn(group, settings.consumer_assignment_interval_ms, now_ms)
        if waits_ms == 0:
            transition.retarget(topics, self._assignor(group))
        if not group.is_pending:
            self._pacing.settle(group_id, group.revision, topics)
        interval_ms = self._pacing.interval_ms(
            group_id,
            (group.epoch, group.assignment_epoch),
            len(group.members),
            settings.consumer_heartbeat_interval_ms,
            now_ms,
        )
        return sooner(interval_ms, waits_ms) if waits_ms else interval_ms

    def _assignor(self, group: ConsumerGroup) -> str:
        preferred = group.preferred_assignor()
        return preferred if preferred in self._assignors else self._assignors[0]

    def _resolve(
        self,
        transition: ConsumerTransition,
        topics: TopicsImage,
        now_ms: int,
        sees: Sees | None,
        *,
        asked: bool,
    ) -> bool:
        """Resolve all regular expressions if they are due, else, if ``asked``, the new ones.
        Returns whether topics changed."""
        group_id = transition.group.group_id
        due = self._regexes_due(group_id, topics, now_ms)
        if due:
            self._resolved[group_id] = (topics, now_ms)
        elif not asked:
            return False
        return transition.resolve(topics, self.matches, sees, again=due)

    def to_match(
        self, group_id: str, regex: str | None, topics: TopicsImage, now_ms: int
    ) -> list[str]:
        """The regular expressions whose topics a heartbeat that names ``regex`` needs, including
        expressions whose topics are at hand already.
        """
        group = self._groups.get(group_id)
        needed = [regex] if regex else []
        due = self._regexes_due(group_id, topics, now_ms)
        if group is not None and (regex or due):
            needed += group.unresolved(again=due)
        return needed

    def _regexes_due(self, group_id: str, topics: TopicsImage, now_ms: int) -> bool:
        last = self._resolved.get(group_id)
        return last is None or now_ms - last[1] >= (
            self._regex_refresh_ms if last[0] is topics else REGEX_REFRESH_MS_MIN
        )

    # Removing --------------------------------------------------------------------------------

    def _remove(
        self, group: ConsumerGroup, member_ids: Collection[str], topics: TopicsImage
    ) -> tuple[WrittenRecord, ...]:
        """Remove members. If only members of the classic protocol are left, the group becomes a
        classic group, where its policy allows it."""
        if not member_ids:
            return ()
        left = [m for member_id, m in group.members.items() if member_id not in member_ids]
        if left and self._may_downgrade(len(left)) and all(m.classic for m in left):
            return self._downgrade(group, member_ids, group.epoch, topics, rebalance=True)
        transition = ConsumerTransition(group)
        transition.remove(member_ids, topics)
        for member_id in member_ids:
            self._timers.end(MemberKey(group.group_id, member_id))
        if not group.members:
            self._forget(group)
        return transition.records

    def _may_downgrade(self, members: int) -> bool:
        """Whether a group whose members all use the classic protocol becomes a classic group."""
        fits = members <= self._classic_size_max
        return self._classic is not None and self._migration_policy.downgrades and fits

    def _downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[str],
        generation: int,
        topics: TopicsImage,
        *,
        rebalance: bool,
    ) -> tuple[WrittenRecord, ...]:
        """Let a group become a classic group without the members ``leaving``."""
        assert self._classic is not None
        classic = downgraded(group, leaving, generation, topics)
        records = tombstones(group)
        for member_id in group.members:
            self._timers.end(MemberKey(group.group_id, member_id))
        self._forget(group)
        del self._groups[group.group_id]
        return (*records, *self._classic.adopt(classic, rebalance=rebalance))

    def _forget(self, group: ConsumerGroup) -> None:
        """The group is empty or gone."""
        self._pacing.forget(group.group_id)
        self._resolved.pop(group.group_id, None)

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
            group = self._groups.get(group_id)
            if group is not None and member_id in group.members:
                records.extend(self._remove(group, {member_id}, topics))
        return tuple(records)

    # Replay ----------------------------------------------------------------------------------

    def sessions_restarted(self, now_ms: int) -> None:
        """After a replay: give every member a full session timeout for its next heartbeat, and a
        full rebalance timeout to give partitions back."""
        for group in self._groups.values():
            self._pacing.at_rest(group.group_id, (group.epoch, group.assignment_epoch))
            timeout_ms = self._settings_of(group.group_id).consumer_session_timeout_ms
            for member in group.members.values():
                self._timers.heard_of(group.group_id, member, now_ms, timeout_ms)
                self._timers.watch_revocation(group.group_id, member, now_ms, restarts=True)

    def check_invariants(self) -> None:
        """Assert each group's invariants, and that members have the deadlines that they need."""
        for group in self._groups.values():
            group.check_invariants()
            if self._classic is not None and self._classic.group(group.group_id) is not None:
                raise AssertionError(f"group {group.group_id!r} has two types")
        self._timers.check_invariants(self._groups.values())
