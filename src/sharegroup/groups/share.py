"""The membership side of a share group coordinator: heartbeats, sessions, assignment (KIP-932;
Kafka class GroupMetadataManager, its share half).

**Decide, apply, persist, answer.** A request is checked whole, then applied at once; the records
that say what has changed are returned and the caller must make them durable, in order, before it
answers. When that fails the caller must throw this object away and replay the log.

**The first heartbeat already carries the assignment.** A partition may only be assigned once its
delivery state is initialised, which somebody else does durably. So a heartbeat is three calls,
which the caller must not interleave with other calls *for the same group* (one lock per group)::

    missing = groups.uninitialized(request, topics)      # checks the request; usually empty
    await initialise(missing, state_epoch=groups.initialization_epoch(group_id))
    records = groups.initialized(group_id, missing)      # durable even when the next line raises
    result = groups.heartbeat(request, topics, now_ms)   # its records: durable before the answer

Kafka initialises after the first heartbeat and assigns in the second, five seconds later. For the
same reason a member that joins or changes its subscription does not wait for the assignment
interval here; what waits for it (at most until the first heartbeat of any member after it) is a
leave, an expired session, and a topic that is new, grown or deleted. The other members hear of
their new partitions in their own next heartbeat, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.group import GroupDescription, GroupState, ShareGroup
from sharegroup.groups.heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    HeartbeatResult,
    ShareHeartbeat,
    ToInitialize,
    check_heartbeat,
    check_member_epoch,
)
from sharegroup.groups.records import (
    CoordinatorRecord,
    GroupMetadata,
    StatePartitionMetadata,
    TargetAssignmentMetadata,
    Tombstone,
    TopicPartitions,
)
from sharegroup.groups.sessions import MemberKey, Sessions
from sharegroup.groups.topics import TopicsImage
from sharegroup.groups.transition import Identity, Transition
from sharegroup.model.errors import (
    GroupIdNotFound,
    GroupMaxSizeReached,
    NonEmptyGroup,
    UnknownMemberId,
)
from sharegroup.model.offsets import UNKNOWN_OFFSET

GROUP_SIZE_MAX: Final = 200
"""Members in a group; Kafka's default of group.share.max.size."""


class GroupListing(NamedTuple):
    """One line of ListGroups."""

    group_id: str
    state: GroupState


class ShareGroups:
    """All share groups of this coordinator.

    ``settings_of`` gives the effective settings of a group at the time of the call. Times are
    milliseconds of one monotonic clock.
    """

    def __init__(
        self, settings_of: Callable[[str], GroupSettings], *, group_size_max: int = GROUP_SIZE_MAX
    ) -> None:
        self._settings_of = settings_of
        self._group_size_max = group_size_max
        self._groups: dict[str, ShareGroup] = {}
        self._sessions = Sessions()
        self._assigned_at_ms: dict[str, int] = {}

    def heartbeat(
        self, request: ShareHeartbeat, topics: TopicsImage, now_ms: int
    ) -> HeartbeatResult:
        """Take in a heartbeat. The caller must make ``records`` durable before it answers.

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
            records = self._remove(group, request.member_id)
            return HeartbeatResult(
                member_id=request.member_id, member_epoch=LEAVE_EPOCH, records=records
            )
        self._groups[group.group_id] = group
        settings = self._settings_of(group.group_id)
        before = group.members.get(request.member_id)
        transition = Transition(group)
        self._advance(transition, request, topics, now_ms, settings)
        key = MemberKey(group.group_id, request.member_id)
        self._sessions.restart(key, now_ms + settings.session_timeout_ms)
        member = group.members[request.member_id]
        told = (
            before is not None
            and JOIN_EPOCH < before.epoch == request.member_epoch
            and request.subscribed_topics is None
            and before.assignment == member.assignment
        )
        return HeartbeatResult(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=None if told else member.assignment,
            records=transition.records,
        )

    def uninitialized(
        self, request: ShareHeartbeat, topics: TopicsImage
    ) -> tuple[ToInitialize, ...]:
        """Partitions that must have delivery state before this heartbeat can assign them; by topic
        and partition.

        Raises what :meth:`heartbeat` would raise, and changes nothing.
        """
        group = self._admit(request)
        if request.member_epoch == LEAVE_EPOCH:
            return ()
        names = set(request.subscribed_topics or ())
        for member in group.members.values():
            if member.member_id != request.member_id or request.subscribed_topics is None:
                names.update(member.subscribed_topics)
        return tuple(
            missing
            for name in sorted(names)
            for missing in _missing_partitions(group, name, topics)
        )

    def initialization_epoch(self, group_id: str) -> int:
        """The state epoch with which to initialise delivery state: the group epoch, 1 for a group
        about to exist.
        """
        group = self._groups.get(group_id)
        return max(1, group.epoch) if group is not None else 1

    def initialized(
        self, group_id: str, partitions: Iterable[ToInitialize]
    ) -> tuple[CoordinatorRecord, ...]:
        """Their delivery state is durable: they may be assigned from now on. A group that a join
        is about to create is created. The caller must make the records durable, together with
        those of the heartbeat that follows or alone.
        """
        done = list(partitions)
        if not done:
            return ()
        group = self._groups.setdefault(group_id, ShareGroup(group_id))
        known = dict(group.initialized)
        for topic_id, name, partition, _ in done:
            held = known[topic_id].partitions if topic_id in known else ()
            merged = tuple(sorted({*held, partition}))
            known[topic_id] = TopicPartitions(topic_id, name, merged)
        transition = Transition(group)
        transition.set_initialized(known.values())
        return transition.records

    def initialized_partitions(self, group_id: str) -> tuple[TopicPartitions, ...]:
        """Partitions that have delivery state, by topic id; none for a group that does not
        exist.
        """
        group = self._groups.get(group_id)
        return group.describe().initialized if group is not None else ()

    def topics_deleted(self, topic_ids: Collection[UUID]) -> tuple[CoordinatorRecord, ...]:
        """Forget topics that are gone. Their assignment ends with the next heartbeat of each
        member.
        """
        records: list[CoordinatorRecord] = []
        for group in self._groups.values():
            transition = Transition(group)
            transition.set_initialized(
                topic for topic in group.initialized.values() if topic.topic_id not in topic_ids
            )
            records.extend(transition.records)
        return tuple(records)

    def next_deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do, or None."""
        return self._sessions.next_deadline_ms()

    def tick(self, now_ms: int) -> tuple[CoordinatorRecord, ...]:
        """Remove members whose session has ended. The caller must make the records durable."""
        records: list[CoordinatorRecord] = []
        for group_id, member_id in self._sessions.expired(now_ms):
            records.extend(self._remove(self._groups[group_id], member_id))
        return tuple(records)

    def describe(self, group_id: str) -> GroupDescription:
        """A picture of one group.

        Raises:
            GroupIdNotFound: there is no such group.
        """
        return self._existing(group_id).describe()

    def list_groups(self) -> tuple[GroupListing, ...]:
        """All groups by id."""
        return tuple(
            GroupListing(name, group.state) for name, group in sorted(self._groups.items())
        )

    def delete(self, group_id: str) -> tuple[CoordinatorRecord, ...]:
        """Delete an empty group. The caller must have deleted the delivery state of its partitions
        before.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members.
        """
        group = self._existing(group_id)
        if group.members:
            raise NonEmptyGroup
        del self._groups[group_id]
        self._assigned_at_ms.pop(group_id, None)
        kinds = (StatePartitionMetadata, TargetAssignmentMetadata, GroupMetadata)
        return tuple(Tombstone(key_type=kind.key_type, group_id=group_id) for kind in kinds)

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in a record from the log. :meth:`sessions_restarted` must follow the last one."""
        group_id = record.group_id
        if not isinstance(record, Tombstone):
            self._groups.setdefault(group_id, ShareGroup(group_id)).apply(record)
        elif record.key_type == GroupMetadata.key_type:
            self._groups.pop(group_id, None)
        elif group_id in self._groups:
            self._groups[group_id].apply(record)

    def sessions_restarted(self, now_ms: int) -> None:
        """After a replay: every member has a whole session to be heard of."""
        for group in self._groups.values():
            timeout_ms = self._settings_of(group.group_id).session_timeout_ms
            for member_id in group.members:
                self._sessions.restart(MemberKey(group.group_id, member_id), now_ms + timeout_ms)

    def check_invariants(self) -> None:
        """Every group's own; and there is a session for each member, and for nobody else."""
        for group in self._groups.values():
            group.check_invariants()
            for member_id in group.members:
                if MemberKey(group.group_id, member_id) not in self._sessions:
                    raise AssertionError(f"member {member_id} of {group.group_id} has no session")
        if len(self._sessions) != sum(len(group.members) for group in self._groups.values()):
            raise AssertionError("there is a session without a member")

    def _existing(self, group_id: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Share group {group_id} not found.")
        return group

    def _admit(self, request: ShareHeartbeat) -> ShareGroup:
        """The group of a request that may go on; a group that does not exist yet is made, but not
        remembered.
        """
        check_heartbeat(request)
        joins = request.member_epoch == JOIN_EPOCH
        if joins and request.group_id not in self._groups:
            return ShareGroup(request.group_id)
        group = self._existing(request.group_id)
        member = group.members.get(request.member_id)
        leaves = request.member_epoch == LEAVE_EPOCH
        if member is None and not leaves and len(group.members) >= self._group_size_max:
            raise GroupMaxSizeReached(
                f"The share group has reached its maximum capacity of {self._group_size_max} "
                "members."
            )
        if member is None and not joins:
            raise UnknownMemberId(
                f"Member {request.member_id} is not a member of group {request.group_id}."
            )
        if member is not None and not joins and not leaves:
            check_member_epoch(request.member_epoch, member.epoch, member.previous_epoch)
        return group

    def _advance(
        self,
        transition: Transition,
        request: ShareHeartbeat,
        topics: TopicsImage,
        now_ms: int,
        settings: GroupSettings,
    ) -> None:
        group = transition.group
        changed = transition.subscribe(
            Identity(
                request.member_id,
                request.rack_id,
                request.client_id,
                request.client_host,
                request.subscribed_topics,
            )
        )
        bumped = transition.bump_epoch(topics, changed=changed)
        last_ms = self._assigned_at_ms.get(group.group_id)
        urgent = changed or request.member_epoch == JOIN_EPOCH or last_ms is None
        if group.assignment_epoch < group.epoch and (
            urgent or now_ms - (last_ms or 0) >= settings.assignment_interval_ms
        ):
            transition.retarget(topics)
            self._assigned_at_ms[group.group_id] = now_ms
        transition.reconcile(request.member_id, topics, changed=bumped)

    def _remove(self, group: ShareGroup, member_id: str) -> tuple[CoordinatorRecord, ...]:
        transition = Transition(group)
        transition.remove(member_id)
        self._sessions.end(MemberKey(group.group_id, member_id))
        if not group.members:
            self._assigned_at_ms.pop(group.group_id, None)
        return transition.records


def _missing_partitions(group: ShareGroup, name: str, topics: TopicsImage) -> list[ToInitialize]:
    info = topics.get(name)
    if info is None:
        return []
    known = group.initialized.get(info.topic_id)
    held = frozenset(known.partitions) if known else frozenset()
    start_offset = 0 if known else UNKNOWN_OFFSET
    return [
        ToInitialize(info.topic_id, name, partition, start_offset)
        for partition in range(info.partition_count)
        if partition not in held
    ]
