"""The change of a share group or a consumer group, and the records of that change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast

from sharegroup.groups.modern_group import ModernGroup
from sharegroup.groups.records import Tombstone
from sharegroup.groups.topics import TopicsImage, metadata_hash

G = TypeVar("G", bound=ModernGroup[Any])
R = TypeVar("R")


class GroupChange(Generic[G, R]):
    """The change of a group from one state to the next, record by record, and the steps that all
    groups take alike.
    """

    def __init__(self, group: G) -> None:
        self.group = group
        self._records: list[R] = []

    @property
    def records(self) -> tuple[R, ...]:
        """The records that the caller must make durable, in this order."""
        return tuple(self._records)

    def emit(self, record: R) -> None:
        """Apply a record and keep it."""
        self.group.apply(record)
        self._records.append(record)

    def delete(self, key_type: int, name: str) -> None:
        """Delete the record of a member, or of something else that has a name."""
        self._emit(Tombstone(key_type=key_type, group_id=self.group.group_id, member_id=name))

    def bump_epoch(self, topics: TopicsImage, *, changed: bool) -> bool:
        """Bump the group epoch if a new assignment is needed: ``changed``, or the topics changed.
        Returns whether one is needed.
        """
        group = self.group
        digest = metadata_hash(group.subscribed_topics(), topics)
        if not changed and digest == group.metadata_hash:
            return False
        self._emit(
            group.kinds.group(group_id=group.group_id, epoch=group.epoch + 1, metadata_hash=digest)
        )
        return True

    def set_targets(self, changed: Iterable[R]) -> None:
        """Set the target assignment for the group epoch, of which some targets have changed."""
        for record in changed:
            self.emit(record)
        self._assigned()

    def bury(self, member_id: str) -> None:
        """Delete the records of a member."""
        kinds = self.group.kinds
        for kind in (kinds.current, kinds.target, kinds.member):
            self.delete(kind.key_type, member_id)

    def members_gone(self, topics: TopicsImage) -> None:
        """Members have been buried. When the last member goes, no assignment stays pending
        (KAFKA-20442).
        """
        self.bump_epoch(topics, changed=True)
        if not self.group.members:
            self._assigned()

    def _assigned(self) -> None:
        """The target assignment is that of the group epoch."""
        group = self.group
        self._emit(group.kinds.target_epoch(group_id=group.group_id, assignment_epoch=group.epoch))

    def _emit(self, record: object) -> None:
        # The kinds of the group are among the records R, which their types cannot say.
        self.emit(cast("R", record))
