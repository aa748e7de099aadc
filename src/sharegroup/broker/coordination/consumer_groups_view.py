"""A read-only view of all consumer groups of this broker, over the machines of all partitions.

Implements ``group_registry.CommittingGroups``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from uuid import UUID

from sharegroup.broker.coordination.groups_view import GroupsView
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.member import ConsumerGroupSnapshot, ConsumerMember
from sharegroup.groups.consumer.records import ConsumerRecord
from sharegroup.groups.offsets import CommitClient


class ConsumerGroupsView(GroupsView[ConsumerGroups]):
    """The queries of ``ConsumerGroups``, over all partitions."""

    def describe(self, group_id: str) -> ConsumerGroupSnapshot:
        """A snapshot of one group. Raises GroupIdNotFound."""
        return self._of(group_id).describe(group_id)

    def records(self, group_id: str) -> Iterator[ConsumerRecord]:
        """All records of a group; empty for an unknown group."""
        return self._of(group_id).table.records(group_id)

    def check_commit(self, committer: CommitClient, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Allow a commit of offsets. See ``CommittingGroups``."""
        self._of(committer.group_id).check_commit(committer, partitions)

    def committed(self, committer: CommitClient) -> None:
        """Nothing to do: a commit does not keep a member of a consumer group alive, only
        heartbeats, joins and syncs do."""

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Allow OffsetFetch. See ``CommittingGroups``."""
        self._of(group_id).check_fetch(group_id, member_id, member_epoch)

    def has_members(self, group_id: str) -> bool:
        """Whether a consumer group has members."""
        return self._of(group_id).has_members(group_id)

    def cooperative_member(
        self, group_id: str, member_id: str, member_epoch: int, partition: tuple[UUID, int]
    ) -> tuple[ConsumerMember, Collection[str]]:
        """See ``ConsumerGroups.cooperative_member``. Raises KafkaError."""
        return self._of(group_id).cooperative_member(group_id, member_id, member_epoch, partition)

    def check_offset_delete(self, group_id: str) -> None:
        """Allow OffsetDelete always: all subscriptions are known. See ``CommittingGroups``."""

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by regular expression."""
        return self._of(group_id).subscribes(group_id, topic)

    def keeps_offsets(self, group_id: str) -> bool:
        """Never: all subscriptions are known. See ``CommittingGroups``."""
        return False

    def empty_since_ms(self, group_id: str) -> int | None:
        """None: no record tells since when the group has been empty. As in Kafka, its offsets
        expire by the time of their commit."""
        return None
