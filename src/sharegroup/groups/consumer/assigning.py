"""When the target assignments of consumer groups are computed, by which assignor, and for which
topics (Kafka class GroupMetadataManager).

**Regular expressions** are resolved inside the heartbeat that brings them, so that the first answer
has the assignment; Kafka resolves them after it, and assigns with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.group import ConsumerGroup
from sharegroup.groups.consumer.patterns import Matches
from sharegroup.groups.consumer.records import ConsumerRecord
from sharegroup.groups.consumer.transition import ConsumerTransition, Sees
from sharegroup.groups.pacing import Pacing, sooner
from sharegroup.groups.table import GroupTable
from sharegroup.groups.topics import TopicsImage

REGEX_REFRESH_MS_MIN: Final = 1_000
"""The least time between two resolutions of all regular expressions of a group (Kafka: 10 s)."""


class Assigning:
    """The assignment of the groups in ``table``; see ``ConsumerGroups`` for the other arguments."""

    def __init__(
        self,
        table: GroupTable[ConsumerGroup, ConsumerRecord],
        assignors: Sequence[str],
        regex_refresh_ms: int,
        matches: Matches,
    ) -> None:
        self._table = table
        self._assignors = tuple(assignors)
        self._regex_refresh_ms = regex_refresh_ms
        self.matches: Final = matches
        self._pacing = Pacing()
        self._resolved: dict[str, tuple[TopicsImage, int]] = {}
        """(topics, time) of the last resolution of a group's regular expressions."""

    @property
    def default_assignor(self) -> str:
        """The assignor of a group whose members ask for none."""
        return self._assignors[0]

    def assignor_of(self, group: ConsumerGroup) -> str:
        """The assignor that the group uses now."""
        preferred = group.preferred_assignor()
        return preferred if preferred in self._assignors else self.default_assignor

    def bump(self, transition: ConsumerTransition, topics: TopicsImage, *, changed: bool) -> None:
        """Bump the group epoch if a new assignment is needed."""
        group = transition.group
        if changed or not self._pacing.is_settled(group.group_id, group.revision, topics):
            transition.bump_epoch(topics, changed=changed)

    def retarget(
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
            transition.retarget(topics, self.assignor_of(group))
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

    def at_rest(self, group: ConsumerGroup) -> None:
        """The group was replayed, which is no change of it."""
        self._pacing.at_rest(group.group_id, (group.epoch, group.assignment_epoch))

    def forget(self, group_id: str) -> None:
        """The group is empty or gone."""
        self._pacing.forget(group_id)
        self._resolved.pop(group_id, None)

    # Regular expressions ---------------------------------------------------------------------

    def resolve(
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
        group = self._table.get(group_id)
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
