"""The membership side of a share group coordinator: heartbeats, sessions, assignment (KIP-932;
Kafka class GroupMetadataManager, its share half).

**Decide, apply, persist, answer.** A request is checked completely, then applied at once. The
records of the change are returned, and the caller must make them durable, in order, before it
answers. If that fails, the caller must throw this object away and replay the log.

**The first heartbeat already returns the assignment.** A partition may be assigned only once its
delivery state is initialised durably, which is not done here. So a heartbeat takes a few calls,
which the caller must not interleave with other calls *for the same group* (one lock per group)::

    missing = groups.uninitialized(request, topics)        # checks the request; usually empty
    records = groups.initializing(group_id, missing)
    await initialise(missing, state_epoch=groups.initialization_epoch(group_id))
    records += groups.initialized(group_id, missing)       # or not_initialized: tried again later
    result = groups.heartbeat(request, topics, now_ms)     # its records: durable before the answer

Kafka initialises after the first heartbeat and assigns in the second, five seconds later.

**The assignment interval** (``share.assignment.interval.ms``, KIP-1263): the first member of a
group is assigned at once. After that, all changes within the interval share one computation at its
end. A member that sends a heartbeat meanwhile gets a shorter heartbeat interval, so that it comes
back just then (Kafka's members wait for their usual interval). Other members get their new
partitions with their own next heartbeat, as in Kafka.

**A heartbeat without changes costs the same for any size of group**: once a group has nothing left
to initialise or assign, this is remembered for its revision and the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.modern_group import JOIN_EPOCH, LEAVE_EPOCH
from sharegroup.groups.pacing import Pacing, sooner
from sharegroup.groups.records import Tombstone
from sharegroup.groups.sessions import MemberKey, Sessions
from sharegroup.groups.share import administration
from sharegroup.groups.share.administration import ToDelete
from sharegroup.groups.share.group import ShareGroup, ShareGroupSnapshot, ShareGroupState
from sharegroup.groups.share.heartbeat import (
    ShareHeartbeat,
    ShareHeartbeatResult,
    ToInitialize,
    check_heartbeat,
    check_member_epoch,
)
from sharegroup.groups.share.records import (
    ShareGroupMetadata,
    ShareRecord,
    ShareTargetAssignmentMetadata,
    StatePartitionMetadata,
    TopicPartitions,
)
from sharegroup.groups.share.transition import ShareTransition, has_unassigned
from sharegroup.groups.table import GroupTable
from sharegroup.groups.topics import TopicsImage
from sharegroup.model.errors import GroupMaxSizeReached
from sharegroup.model.offsets import UNKNOWN_OFFSET

GROUP_SIZE_MAX: Final = 200
"""Members in a group; Kafka's default of group.share.max.size."""


LATE_MS: Final = 2_000
"""A heartbeat that is later by so much than the one after it would be is missed."""


class Silence(NamedTuple):
    """A member that has missed a heartbeat was heard of ``silent_ms`` ago; its session ends in
    ``left_ms``."""

    silent_ms: int
    left_ms: int


class ShareGroupListing(NamedTuple):
    """One line of ListGroups."""

    group_id: str
    state: ShareGroupState


class ShareGroups:
    """All share groups of this coordinator.

    ``settings_of`` gives the effective settings of a group at the time of the call. Times are
    milliseconds of one monotonic clock.
    """

    def __init__(
        self, settings_of: Callable[[str], GroupSettings], *, group_size_max: int = GROUP_SIZE_MAX
    ) -> None:
        self.table: Final = GroupTable[ShareGroup, ShareRecord](ShareGroup)
        self._settings_of = settings_of
        self._group_size_max = group_size_max
        self._sessions = Sessions()
        self._pacing = Pacing()

    # Heartbeats ------------------------------------------------------------------------------

    def heartbeat(
        self, request: ShareHeartbeat, topics: TopicsImage, now_ms: int
    ) -> ShareHeartbeatResult:
        """Apply a heartbeat. The caller must make ``records`` durable before it answers.

        Raises, in this order, before anything has changed:
            InvalidRequest: an id is missing or too long, the epoch is below -1, or a join names no
                topic.
            GroupIdNotFound: the group does not exist and the member does not join.
            GroupMaxSizeReached: a new member would be one too many.
            UnknownMemberId: the member does not exist and does not join. It must join again.
            FencedMemberEpoch: the epoch is neither the member's nor its previous one. It must join
                again.
        """
        group = self._admit(request)
        if request.member_epoch == LEAVE_EPOCH:
            records = self._remove(group, request.member_id, topics)
            return ShareHeartbeatResult(
                member_id=request.member_id, member_epoch=LEAVE_EPOCH, records=records
            )
        self.table.add(group)
        settings = self._settings_of(group.group_id)
        before = group.members.get(request.member_id)
        transition = ShareTransition(group)
        interval_ms = self._advance(transition, request, topics, now_ms, settings)
        key = MemberKey(group.group_id, request.member_id)
        self._sessions.restart(key, now_ms + settings.session_timeout_ms)
        member = group.members[request.member_id]
        told = (
            before is not None
            and JOIN_EPOCH < before.epoch == request.member_epoch
            and request.subscribed_topics is None
            and before.assignment == member.assignment
        )
        return ShareHeartbeatResult(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=None if told else member.assignment,
            records=transition.records,
        )

    def uninitialized(
        self, request: ShareHeartbeat, topics: TopicsImage
    ) -> tuple[ToInitialize, ...]:
        """Partitions that must have delivery state before this heartbeat can assign them, by
        topic.

        Raises what :meth:`heartbeat` would raise, and changes nothing.
        """
        group = self._admit(request)
        if request.member_epoch == LEAVE_EPOCH:
            return ()
        wanted = request.subscription
        member = group.members.get(request.member_id)
        news = () if wanted is None or (member and wanted == member.subscribed_topics) else wanted
        if not news and self._is_settled(group, topics):
            return ()
        names = {*group.subscribed_topics(), *news}
        missing = (_missing(group, name, topics) for name in sorted(names))
        return tuple(item for item in missing if item.topic.partitions)

    def initialization_epoch(self, group_id: str) -> int:
        """The state epoch with which to initialise delivery state: the group epoch."""
        return (self.table.get(group_id) or ShareGroup(group_id)).epoch

    def initializing(
        self, group_id: str, missing: Sequence[ToInitialize]
    ) -> tuple[ShareRecord, ...]:
        """Delivery state of ``missing`` is about to be initialised. Creates the group if it does
        not exist yet: a join or an administrator is about to create it.
        """
        if not missing:
            return ()
        group = self.table.get_or_add(group_id)
        return administration.initializing(group, [item.topic for item in missing])

    def initialized(
        self, group_id: str, missing: Sequence[ToInitialize]
    ) -> tuple[ShareRecord, ...]:
        """Delivery state of ``missing`` is durable: these partitions may be assigned from now
        on."""
        group = self.table.get(group_id)
        if group is None or not missing:
            return ()
        return administration.initialized(group, [item.topic for item in missing])

    def not_initialized(
        self, group_id: str, missing: Sequence[ToInitialize]
    ) -> tuple[ShareRecord, ...]:
        """Initialising ``missing`` has failed; the next heartbeat finds them missing again."""
        group = self.table.get(group_id)
        if group is None or not missing:
            return ()
        return administration.not_initialized(group, [item.topic for item in missing])

    # Topics and administration ---------------------------------------------------------------

    def state_partitions(self, group_id: str) -> tuple[TopicPartitions, ...]:
        """Partitions that have delivery state, by topic id; empty for a group that does not
        exist.
        """
        group = self.table.get(group_id)
        return group.describe().initialized if group is not None else ()

    def holds(self, topic_id: UUID) -> list[tuple[str, TopicPartitions]]:
        """(group, partitions) of every group that has delivery state of a topic, or is initialising
        it.
        """
        return [
            (group.group_id, topic)
            for group in self.table
            for topics in (group.initialized, group.initializing)
            if (topic := topics.get(topic_id)) is not None
        ]

    def topic_ids(self) -> set[UUID]:
        """Topics of which some group has delivery state, or is initialising or deleting it."""
        return {*self.topic_names()}

    def topic_names(self) -> dict[UUID, str]:
        """The names of :meth:`topic_ids`, by id."""
        names: dict[UUID, str] = {}
        for group in self.table:
            names |= group.deleting
            for topics in (group.initialized, group.initializing):
                names |= {topic_id: topic.name for topic_id, topic in topics.items()}
        return names

    def topics_deleted(self, topic_ids: Collection[UUID]) -> tuple[ShareRecord, ...]:
        """Forget topics that are gone. Their assignment ends with the next heartbeat of each
        member.
        """
        return tuple(
            record
            for group in self.table
            for record in administration.topics_gone(group, topic_ids)
        )

    def check_empty(self, group_id: str) -> None:
        """Raise NonEmptyGroup when the group exists and has members."""
        group = self.table.get(group_id)
        if group is not None:
            administration.check_empty(group)

    def begin_deletion(self, group_id: str, topics: TopicsImage) -> ToDelete:
        """The first half of deleting an empty group; :meth:`delete` is the second.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members.
        """
        group = self.table.existing(group_id)
        administration.check_empty(group)
        return administration.deletion(group, topics)

    def delete(self, group_id: str) -> tuple[ShareRecord, ...]:
        """Delete an empty group. The caller must have deleted the delivery state of its partitions
        before.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members.
        """
        administration.check_empty(self.table.existing(group_id))
        self.table.remove(group_id)
        self._pacing.forget(group_id)
        kinds = (ShareTargetAssignmentMetadata, StatePartitionMetadata, ShareGroupMetadata)
        return tuple(Tombstone(key_type=kind.key_type, group_id=group_id) for kind in kinds)

    def begin_offsets_deletion(
        self, group_id: str, names: Sequence[str], topics: TopicsImage
    ) -> ToDelete:
        """The first half of deleting an empty group's offsets in some topics;
        :meth:`offsets_deleted` is the second.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members.
        """
        group = self.table.existing(group_id)
        administration.check_empty(group)
        return administration.offsets_deletion(group, names, topics)

    def offsets_deleted(
        self, group_id: str, topic_ids: Collection[UUID]
    ) -> tuple[ShareRecord, ...]:
        """The delivery state of these topics is gone."""
        return administration.deleted(self.table.existing(group_id), topic_ids)

    # Time ------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do, or None."""
        return self._sessions.next_deadline_ms()

    def tick(self, topics: TopicsImage, now_ms: int) -> tuple[ShareRecord, ...]:
        """Remove members whose session has ended. The caller must make the records durable."""
        records: list[ShareRecord] = []
        for group_id, member_id in self._sessions.expired(now_ms):
            records.extend(self._remove(self.table.existing(group_id), member_id, topics))
        return tuple(records)

    # Reading ---------------------------------------------------------------------------------

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return group_id in self.table

    def group_ids(self) -> list[str]:
        """The groups that exist."""
        return self.table.group_ids()

    def describe(self, group_id: str) -> ShareGroupSnapshot:
        """A snapshot of one group.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        return self.table.existing(group_id).describe()

    def member_count(self, group_id: str) -> int:
        """The number of members.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        return len(self.table.existing(group_id).members)

    def silent(self, group_id: str, now_ms: int) -> dict[str, Silence]:
        """The members that have missed a heartbeat.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        members = self.table.existing(group_id).members
        if not members:
            return {}
        settings = self._settings_of(group_id)
        late_ms = 2 * settings.heartbeat_interval_ms + LATE_MS
        found = {}
        for member_id in members:
            left_ms = self._sessions.deadline_ms(MemberKey(group_id, member_id)) - now_ms
            silent_ms = settings.session_timeout_ms - left_ms
            if silent_ms > late_ms:
                found[member_id] = Silence(silent_ms, max(0, left_ms))
        return found

    def is_pending(self, group_id: str) -> bool:
        """Whether a new target assignment of the group waits to be computed."""
        return self.table.existing(group_id).is_pending

    def list_groups(self) -> tuple[ShareGroupListing, ...]:
        """All groups by id."""
        return tuple(
            ShareGroupListing(group_id, self.table.existing(group_id).state)
            for group_id in sorted(self.table.group_ids())
        )

    # Replay ----------------------------------------------------------------------------------

    def sessions_restarted(self, now_ms: int) -> None:
        """After a replay: give every member a full session timeout for its next heartbeat."""
        for group in self.table:
            timeout_ms = self._settings_of(group.group_id).session_timeout_ms
            for member_id in group.members:
                self._sessions.restart(MemberKey(group.group_id, member_id), now_ms + timeout_ms)

    def check_invariants(self) -> None:
        """Assert each group's invariants, and that exactly the members have sessions."""
        for group in self.table:
            group.check_invariants()
            for member_id in group.members:
                if MemberKey(group.group_id, member_id) not in self._sessions:
                    raise AssertionError(f"member {member_id} of {group.group_id} has no session")
        if len(self._sessions) != sum(len(group.members) for group in self.table):
            raise AssertionError("there is a session without a member")

    def _admit(self, request: ShareHeartbeat) -> ShareGroup:
        """Check a request; returns its group. For a join to a group that does not exist yet, this
        is a new group that is not stored yet.
        """
        check_heartbeat(request)
        joins = request.member_epoch == JOIN_EPOCH
        if joins and request.group_id not in self.table:
            return ShareGroup(request.group_id)
        group = self.table.existing(request.group_id)
        member = group.members.get(request.member_id)
        leaves = request.member_epoch == LEAVE_EPOCH
        if member is None and not leaves and len(group.members) >= self._group_size_max:
            raise GroupMaxSizeReached(
                f"The share group has reached its maximum capacity of {self._group_size_max} "
                "members."
            )
        if not joins:
            member = group.member(request.member_id)
        if member is not None and not joins and not leaves:
            check_member_epoch(request.member_epoch, member.epoch, member.previous_epoch)
        return group

    def _advance(
        self,
        transition: ShareTransition,
        request: ShareHeartbeat,
        topics: TopicsImage,
        now_ms: int,
        settings: GroupSettings,
    ) -> int:
        """Apply all changes of a heartbeat; returns the heartbeat interval to answer with."""
        group = transition.group
        changed = transition.subscribe(request)
        interval_ms = settings.heartbeat_interval_ms
        bumped = False
        if not self._is_settled(group, topics):
            changed = changed or (not group.is_pending and has_unassigned(group, topics))
            bumped = transition.bump_epoch(topics, changed=changed)
            wait_ms = self._pacing.turn(group, settings.assignment_interval_ms, now_ms)
            if wait_ms == 0:
                transition.retarget(topics)
            elif wait_ms is not None:
                interval_ms = sooner(interval_ms, wait_ms)
        transition.reconcile(request.member_id, topics, changed=bumped)
        if not group.is_pending and _is_initialized(group, topics):
            self._pacing.settle(group.group_id, group.revision, topics)
        return interval_ms

    def _is_settled(self, group: ShareGroup, topics: TopicsImage) -> bool:
        """Whether a heartbeat without changes would have nothing to do."""
        return self._pacing.is_settled(group.group_id, group.revision, topics)

    def _remove(
        self, group: ShareGroup, member_id: str, topics: TopicsImage
    ) -> tuple[ShareRecord, ...]:
        transition = ShareTransition(group)
        transition.remove(member_id, topics)
        self._sessions.end(MemberKey(group.group_id, member_id))
        if not group.members:
            self._pacing.forget(group.group_id)
        return transition.records


def _is_initialized(group: ShareGroup, topics: TopicsImage) -> bool:
    """Whether every partition that the group subscribes to has delivery state."""
    found = [info for name in group.subscribed_topics() if (info := topics.get(name)) is not None]
    return all(
        (known := group.initialized.get(info.topic_id)) is not None
        and len(known.partitions) >= info.partition_count
        for info in found
    )


def _missing(group: ShareGroup, name: str, topics: TopicsImage) -> ToInitialize:
    """The partitions of a topic that have no delivery state in the group, including partitions
    whose initialisation was interrupted.
    """
    info = topics.get(name)
    if info is None:
        return ToInitialize(TopicPartitions(UUID(int=0), name, ()), UNKNOWN_OFFSET)
    known = group.initialized.get(info.topic_id)
    held = frozenset(known.partitions) if known else frozenset()
    missing = tuple(p for p in range(info.partition_count) if p not in held)
    return ToInitialize(
        TopicPartitions(info.topic_id, name, missing), 0 if known else UNKNOWN_OFFSET
    )
