"""The steps of a heartbeat, a leave or a deletion. Each emits records and applies them at once.

Nothing is checked here: requests are checked completely before the first step (``groups.py``,
``administration.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from sharegroup.groups.assignor import assign
from sharegroup.groups.change import GroupChange
from sharegroup.groups.records import Assignment
from sharegroup.groups.share.group import ShareGroup, ShareGroupMember
from sharegroup.groups.share.heartbeat import ShareHeartbeat
from sharegroup.groups.share.records import (
    DeletingTopic,
    ShareCurrentMemberAssignment,
    ShareMemberMetadata,
    ShareRecord,
    ShareTargetAssignmentMember,
    StatePartitionMetadata,
    TopicPartitions,
)
from sharegroup.groups.topics import TopicsImage


class ShareTransition(GroupChange[ShareGroup, ShareRecord]):
    """The steps that the module describes."""

    def subscribe(self, request: ShareHeartbeat) -> bool:
        """Add or update a member; returns whether the group's subscriptions changed."""
        known = self.group.members.get(request.member_id)
        wanted = request.subscription
        if known is not None and _says_nothing_new(request, wanted, known):
            return False
        old = known.subscribed_topics if known else ()
        record = ShareMemberMetadata(
            group_id=self.group.group_id,
            member_id=request.member_id,
            rack_id=request.rack_id or (known.rack_id if known else None),
            client_id=request.client_id,
            client_host=request.client_host,
            subscribed_topics=old if wanted is None else wanted,
        )
        self.emit(record)
        return known is None or record.subscribed_topics != old

    def retarget(self, topics: TopicsImage) -> None:
        """Compute the target assignment for the group epoch. Only changed targets are written."""
        group = self.group
        existing = {
            subscribed: frozenset(topics.ids(subscribed))
            for subscribed in {member.subscribed_topics for member in group.members.values()}
        }
        new = assign(
            {m.member_id: existing[m.subscribed_topics] for m in group.members.values()},
            assignable_partitions(group, topics),
            group.targets,
        )
        self.set_targets(
            ShareTargetAssignmentMember(
                group_id=group.group_id, member_id=member_id, assignment=new[member_id]
            )
            for member_id in sorted(new)
            if group.targets.get(member_id) != new[member_id]
        )

    def reconcile(self, member_id: str, topics: TopicsImage, *, changed: bool) -> None:
        """Give a member its target at once, restricted to its subscription: there is no revocation
        handshake.
        """
        member, epoch = self.group.members[member_id], self.group.assignment_epoch
        if member.epoch == epoch and not changed:
            return
        subscribed = topics.ids(member.subscribed_topics)
        target = self.group.targets.get(member_id, {})
        assignment = {topic: held for topic, held in target.items() if topic in subscribed}
        if member.epoch == epoch and member.assignment == assignment:
            return
        self.emit(
            ShareCurrentMemberAssignment(
                group_id=self.group.group_id,
                member_id=member_id,
                member_epoch=epoch,
                previous_member_epoch=member.epoch
                if member.epoch != epoch
                else member.previous_epoch,
                assignment=assignment,
            )
        )

    def remove(self, member_id: str, topics: TopicsImage) -> None:
        """Remove a member that leaves or whose session has ended."""
        self.bury(member_id)
        self.members_gone(topics)

    def set_state_partitions(
        self,
        *,
        initialized: Mapping[UUID, TopicPartitions] | None = None,
        initializing: Mapping[UUID, TopicPartitions] | None = None,
        deleting: Mapping[UUID, str] | None = None,
    ) -> None:
        """Set which partitions have delivery state, are about to have it, or are about to lose it.
        None leaves a set as it is.
        """
        now = self.group.state_partitions()
        record = StatePartitionMetadata(
            group_id=self.group.group_id,
            initialized=_sorted(initialized, now.initialized),
            initializing=_sorted(initializing, now.initializing),
            deleting=now.deleting
            if deleting is None
            else tuple(sorted(DeletingTopic(*topic) for topic in deleting.items())),
        )
        if record != now:
            self.emit(record)


def _says_nothing_new(
    request: ShareHeartbeat, wanted: tuple[str, ...] | None, member: ShareGroupMember
) -> bool:
    return (
        request.client_id == member.client_id
        and request.client_host == member.client_host
        and request.rack_id in (None, member.rack_id)
        and wanted in (None, member.subscribed_topics)
    )


def _sorted(
    topics: Mapping[UUID, TopicPartitions] | None, now: tuple[TopicPartitions, ...]
) -> tuple[TopicPartitions, ...]:
    if topics is None:
        return now
    return tuple(sorted(topic for topic in topics.values() if topic.partitions))


def joined(
    topics: Mapping[UUID, TopicPartitions], more: Iterable[TopicPartitions]
) -> dict[UUID, TopicPartitions]:
    """``topics`` with the partitions of ``more``."""
    result = dict(topics)
    for topic in more:
        held = result[topic.topic_id].partitions if topic.topic_id in result else ()
        result[topic.topic_id] = topic._replace(
            partitions=tuple(sorted({*held, *topic.partitions}))
        )
    return result


def without(
    topics: Mapping[UUID, TopicPartitions], less: Iterable[TopicPartitions]
) -> dict[UUID, TopicPartitions]:
    """``topics`` without the partitions of ``less``."""
    result = dict(topics)
    for topic in less:
        if topic.topic_id in result:
            gone = frozenset(topic.partitions)
            left = tuple(p for p in result[topic.topic_id].partitions if p not in gone)
            result[topic.topic_id] = topic._replace(partitions=left)
    return {topic_id: topic for topic_id, topic in result.items() if topic.partitions}


def assignable_partitions(group: ShareGroup, topics: TopicsImage) -> Assignment:
    """Initialised partitions of the topics that the group subscribes to and that exist."""
    subscribed = topics.ids(group.subscribed_topics())
    return {
        topic_id: group.initialized[topic_id].partitions
        for topic_id in subscribed
        if topic_id in group.initialized
    }


def has_unassigned(group: ShareGroup, topics: TopicsImage) -> bool:
    """Whether some assignable partition is not assigned."""
    assigned: Mapping[UUID, set[int]] = group.assigned_partitions()
    return any(
        not assigned.get(topic_id, set()).issuperset(partitions)
        for topic_id, partitions in assignable_partitions(group, topics).items()
    )
