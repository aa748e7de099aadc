"""How members of both protocols come into a consumer group and go (Kafka class
GroupMetadataManager).
"""

from __future__ import annotations

from collections.abc import Collection

from sharegroup.groups.consumer.assigning import Assigning
from sharegroup.groups.consumer.group import ConsumerGroup
from sharegroup.groups.consumer.migration import Migration
from sharegroup.groups.consumer.records import ConsumerRecord, WrittenRecord
from sharegroup.groups.consumer.timers import Timers
from sharegroup.groups.consumer.transition import ConsumerTransition
from sharegroup.groups.sessions import MemberKey
from sharegroup.groups.table import GroupTable
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.errors import GroupMaxSizeReached


class Members:
    """The members of the groups in ``table``; a group has at most ``size_max``."""

    def __init__(
        self,
        table: GroupTable[ConsumerGroup, ConsumerRecord],
        timers: Timers,
        assigning: Assigning,
        migration: Migration,
        size_max: int,
    ) -> None:
        self._table = table
        self._timers = timers
        self._assigning = assigning
        self._migration = migration
        self._size_max = size_max

    def check_size(self, group: ConsumerGroup) -> None:
        """Raise GroupMaxSizeReached if the group can have no further member."""
        if len(group.members) >= self._size_max:
            raise GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {self._size_max} members."
            )

    def replace_static(self, transition: ConsumerTransition, old_id: str, new_id: str) -> None:
        """A static member comes back, mostly under a new id."""
        group = transition.group
        self._timers.end(MemberKey(group.group_id, old_id))
        transition.come_back(group.members[old_id], new_id)

    def remove(
        self, group: ConsumerGroup, member_ids: Collection[str], topics: TopicsImage
    ) -> tuple[WrittenRecord, ...]:
        """Remove members. If only members of the classic protocol are left, the group becomes a
        classic group, where its policy allows it."""
        if not member_ids:
            return ()
        left = [m for member_id, m in group.members.items() if member_id not in member_ids]
        if left and self._migration.may_downgrade(len(left), left):
            return self.downgrade(group, member_ids, group.epoch, topics, rebalance=True)
        transition = ConsumerTransition(group)
        transition.remove(member_ids, topics)
        for member_id in member_ids:
            self._timers.end(MemberKey(group.group_id, member_id))
        if not group.members:
            self._assigning.forget(group.group_id)
        return transition.records

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[str],
        generation: int,
        topics: TopicsImage,
        *,
        rebalance: bool,
    ) -> tuple[WrittenRecord, ...]:
        """Let a group become a classic group without the members ``leaving``."""
        for member_id in group.members:
            self._timers.end(MemberKey(group.group_id, member_id))
        self._assigning.forget(group.group_id)
        self._table.remove(group.group_id)
        return self._migration.downgrade(group, leaving, generation, topics, rebalance=rebalance)
