"""A read-only view of all share groups of this broker, over the machines of all partitions."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from sharegroup.broker.coordination.groups_view import GroupsView
from sharegroup.groups.share.group import ShareGroupSnapshot
from sharegroup.groups.share.groups import ShareGroupListing, ShareGroups, Silence
from sharegroup.groups.share.records import ShareRecord, TopicPartitions


class ShareGroupsView(GroupsView[ShareGroups]):
    """The queries of ``ShareGroups``, over all partitions."""

    def describe(self, group_id: str) -> ShareGroupSnapshot:
        """A snapshot of one group. Raises GroupIdNotFound."""
        return self._of(group_id).describe(group_id)

    def member_count(self, group_id: str) -> int:
        """The number of members. Raises GroupIdNotFound."""
        return self._of(group_id).member_count(group_id)

    def silent(self, group_id: str, now_ms: int) -> dict[str, Silence]:
        """The members that have missed a heartbeat. Raises GroupIdNotFound."""
        return self._of(group_id).silent(group_id, now_ms)

    def is_pending(self, group_id: str) -> bool:
        """Whether the group's next target assignment is still to be computed."""
        return self._of(group_id).is_pending(group_id)

    def state_partitions(self, group_id: str) -> tuple[TopicPartitions, ...]:
        """The group's partitions with delivery state, ordered by topic id; empty for an unknown
        group.
        """
        return self._of(group_id).state_partitions(group_id)

    def records(self, group_id: str) -> Iterator[ShareRecord]:
        """All records of a group; empty for an unknown group."""
        return self._of(group_id).table.records(group_id)

    def list_groups(self) -> tuple[ShareGroupListing, ...]:
        """All groups by id."""
        return tuple(sorted(line for groups in self._machines() for line in groups.list_groups()))

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Each group's id and number of members."""
        return (size for groups in self._machines() for size in groups.table.sizes())

    def topic_ids(self) -> set[UUID]:
        """Topics in which any group has delivery state, or is initialising or deleting it."""
        return {topic_id for groups in self._machines() for topic_id in groups.topic_ids()}
