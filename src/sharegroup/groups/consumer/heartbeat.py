"""The heartbeat of a consumer group member: request, result, and checks.

Error messages are Kafka's (classes GroupCoordinatorService and GroupMetadataManager).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from sharegroup.cooperative.intervals import minus
from sharegroup.groups.consumer.group import AWAY_EPOCH, ConsumerGroup
from sharegroup.groups.consumer.member import ConsumerMember, ConsumerMemberState
from sharegroup.groups.consumer.parts import part_of
from sharegroup.groups.consumer.reconciliation import Owned
from sharegroup.groups.consumer.records import Parts, WrittenRecord
from sharegroup.groups.modern_group import JOIN_EPOCH, LEAVE_EPOCH
from sharegroup.groups.records import Assignment
from sharegroup.model import errors

UNCHANGED: Final = -1
"""A rebalance timeout that says "as before"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat v0 and v1. ``member_epoch``: 0 joins, -1 leaves, -2 leaves for a
    while, else the last epoch that the member was told. None means "as before".
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None
    """Empty: the member has no regular expression any more."""
    server_assignor: str | None = None
    owned: Owned | None = None
    takes_ranges: bool = False
    """Whether the member may be given parts of partitions (KIP-X). Sent when it joins."""
    cooperative: bool = False
    """See ``ConsumerMember.cooperative``. Sent when it joins."""
    owned_parts: Parts = field(default_factory=dict)
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether the request has everything, as of a member that joins or has lost an answer."""
        return self.member_epoch == JOIN_EPOCH or (
            self.rebalance_timeout_ms != UNCHANGED
            and (self.subscribed_topics is not None or self.subscribed_regex is not None)
            and self.owned is not None
        )

    @property
    def leaves(self) -> bool:
        """Whether the member leaves, for a while or for good."""
        return self.member_epoch in (LEAVE_EPOCH, AWAY_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatResult:
    """The answer to a heartbeat; ``assignment`` is None when the member knows it already.

    ``heartbeat_interval_ms`` is less than the group's setting while an assignment waits for the
    assignment interval.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    parts: Parts = field(default_factory=dict)
    """The parts of the partitions that are assigned in part."""
    records: tuple[WrittenRecord, ...] = ()


def check_heartbeat(
    request: ConsumerHeartbeat, assignors: Collection[str], *, own_id: bool
) -> None:
    """Check what does not depend on the group's state.

    Args:
        assignors: the assignors that a member may ask for.
        own_id: whether members make their own id (v1 on).

    Raises:
        InvalidRequest: something is missing, or the epoch is below -2.
        UnsupportedAssignor: the member asks for another assignor.
    """
    joins = request.member_epoch == JOIN_EPOCH
    if own_id or request.member_epoch > JOIN_EPOCH or request.member_epoch == LEAVE_EPOCH:
        _require(request.member_id != "", "MemberId can't be empty.")
    _require(request.group_id != "", "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if joins:
        timed = request.rebalance_timeout_ms != UNCHANGED
        _require(timed, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.owned == {}, "TopicPartitions must be empty when (re-)joining.")
        _require(
            request.subscribed_topics is not None or request.subscribed_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        )
    elif request.member_epoch == AWAY_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(request.member_epoch > AWAY_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise errors.UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}."
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise errors.InvalidRequest(message)


def check_member_epoch(request: ConsumerHeartbeat, member: ConsumerMember) -> None:
    """Accept 0, the member's epoch, or its previous one from a member that owns no more than it was
    given: the answer with the new epoch may have been lost.

    Raises:
        FencedMemberEpoch: it is another epoch; or the member is in a state that is not known here
            and owns partitions.
    """
    received, known = request.member_epoch, member.epoch
    if received not in (JOIN_EPOCH, known):
        lost_answer = received == member.previous_epoch and _owns_no_more(request, member)
        if received > known or not lost_answer:
            raise errors.FencedMemberEpoch(
                f"The consumer group member has a {'greater' if received > known else 'smaller'} "
                f"member epoch ({received}) than the one known by the group coordinator ({known}). "
                "The member must abandon all its partitions and rejoin."
            )
    if member.state is ConsumerMemberState.UNKNOWN and request.owned != {}:
        raise errors.FencedMemberEpoch(
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin."
        )


def check_released(request: ConsumerHeartbeat, static: ConsumerMember) -> None:
    """A member that joins as a static member may replace the member of its instance id. That may
    be itself: the answer to its join was lost. (Kafka refuses it, and Java's consumer ends.)

    Raises:
        UnreleasedInstanceId: it is another member, which has not left.
    """
    if static.member_id == request.member_id:
        return
    if static.classic is None and static.epoch != AWAY_EPOCH:
        raise errors.UnreleasedInstanceId(
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join "
            f"the group because the instance id is owned by {static.member_id} member."
        )


def check_sharing(group: ConsumerGroup, request: ConsumerHeartbeat) -> None:
    """All members that share partitions do it in one way: by key, or in turns.

    Raises:
        InconsistentGroupProtocol: the member that joins would share in another way than the others.
    """
    if request.takes_ranges and any(
        member.takes_ranges and member.cooperative != request.cooperative
        for name, member in group.members.items()
        if name != request.member_id
    ):
        others, this = ("by key", "in turns") if request.cooperative else ("in turns", "by key")
        raise errors.InconsistentGroupProtocol(
            f"The members of group {group.group_id} share partitions {others}, not {this}."
        )


def _owns_no_more(request: ConsumerHeartbeat, member: ConsumerMember) -> bool:
    if request.owned is None:
        return False
    assigned, parts = member.assigned, member.assigned_parts
    return all(
        held <= assigned.get(topic_id, {}).keys() for topic_id, held in request.owned.items()
    ) and not any(
        minus(part_of(request.owned_parts, topic_id, partition), part)
        for topic_id, partitions in parts.items()
        for partition, part in partitions.items()
        if partition in request.owned.get(topic_id, ())
    )
