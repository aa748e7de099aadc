"""A read-only view of all classic groups of this broker, over the machines of all partitions.

Implements ``group_registry.CommittingGroups``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from sharegroup.broker.coordination.groups_view import GroupsView
from sharegroup.groups.classic.group import CONSUMER_PROTOCOL, State
from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.requests import Description, Now
from sharegroup.groups.offsets import CommitClient
from sharegroup.model.environment import Clock
from sharegroup.model.errors import NonEmptyGroup


class ClassicGroupsView(GroupsView[ClassicGroups]):
    """The queries of ``ClassicGroups``, over all partitions."""

    def __init__(
        self,
        of: Callable[[str], ClassicGroups],
        machines: Callable[[], Sequence[ClassicGroups]],
        clock: Clock,
    ) -> None:
        super().__init__(of, machines)
        self._clock = clock

    def describe(self, group_id: str) -> Description:
        """A snapshot of a group. Raises GroupIdNotFound."""
        return self._of(group_id).describe(group_id)

    def protocol_type(self, group_id: str) -> str:
        """The protocol type of the group's members, such as "consumer"; empty for an unknown
        group."""
        group = self._of(group_id).group(group_id)
        return "" if group is None else group.protocol_type or ""

    def check_commit(self, committer: CommitClient, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Allow a commit of offsets. See ``CommittingGroups``."""
        group = self._of(committer.group_id).group(committer.group_id)
        if group is not None:
            group.check_commit(
                committer.member_id,
                committer.instance_id,
                committer.epoch,
                transactional=committer.transactional,
            )

    def committed(self, committer: CommitClient) -> None:
        """Restart the member's session (Kafka: OffsetMetadataManager.validateOffsetCommit)."""
        now = Now(self._clock.monotonic_ms(), self._clock.wall_ms())
        self._of(committer.group_id).committed(committer.group_id, committer.member_id, now)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Allow it always: whoever may read a classic group may read its offsets, as in Kafka."""

    def check_offset_delete(self, group_id: str) -> None:
        """Allow OffsetDelete if the group has no members, or consumers: only consumers tell the
        broker their topics. See ``CommittingGroups``."""
        group = self._of(group_id).group(group_id)
        if group is None or group.state is State.EMPTY:
            return
        if group.protocol_type != CONSUMER_PROTOCOL:
            raise NonEmptyGroup

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic. See ``CommittingGroups``."""
        group = self._of(group_id).group(group_id)
        return group is not None and group.subscribes(topic)

    def keeps_offsets(self, group_id: str) -> bool:
        """Whether no offset of the group may expire now. See ``CommittingGroups``."""
        group = self._of(group_id).group(group_id)
        return group is not None and group.keeps_offsets

    def empty_since_ms(self, group_id: str) -> int | None:
        """Since when the group has been empty, in wall-clock milliseconds. None if it has members,
        if it never had members, or if an old record does not say it. In the last two cases offsets
        expire by their own age.
        """
        group = self._of(group_id).group(group_id)
        if group is None or group.state is not State.EMPTY or group.protocol_type is None:
            return None
        return group.since_ms
