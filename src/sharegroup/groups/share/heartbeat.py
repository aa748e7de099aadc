"""The heartbeat of a share group member: request, result, and checks.

Error messages are Kafka's (classes GroupCoordinatorService and GroupMetadataManager).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sharegroup.groups.modern_group import JOIN_EPOCH, LEAVE_EPOCH
from sharegroup.groups.records import Assignment
from sharegroup.groups.share.records import ShareRecord, TopicPartitions
from sharegroup.model.errors import FencedMemberEpoch, InvalidRequest
from sharegroup.model.limits import MEMBER_ID_LENGTH_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """ShareGroupHeartbeat v1. ``member_epoch``: 0 joins, -1 leaves, else the last epoch that the
    member was told.
    """

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def subscription(self) -> tuple[str, ...] | None:
        """``subscribed_topics`` without doubles, in order; None means "as before"."""
        names = self.subscribed_topics
        return None if names is None else tuple(sorted(set(names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatResult:
    """The answer to a heartbeat; ``assignment`` is None when the member knows it already.

    ``heartbeat_interval_ms`` is the group's setting. It is less while an assignment waits for the
    assignment interval, so that the member's next heartbeat comes when the assignment is due.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    records: tuple[ShareRecord, ...] = ()


class ToInitialize(NamedTuple):
    """Partitions of a topic that need delivery state before they can be assigned.

    ``start_offset`` is -1 (share.auto.offset.reset decides) in a topic that is new to the group,
    and 0 for partitions added to a topic that the group knows, as Kafka does since 4.4
    (KAFKA-20742; 4.2 and 4.3 say -1 for them, too, and so skip records that were written to the new
    partition before the group noticed it).
    """

    topic: TopicPartitions
    start_offset: int


def check_member_id(member_id: str) -> None:
    """Raise InvalidRequest, in Kafka's words, for an id that is empty or too long."""
    if not 0 < len(member_id) <= MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest("Invalid member id in the request.")


def check_heartbeat(request: ShareHeartbeat) -> None:
    """Check what does not depend on the group's state, with Kafka's messages.

    Raises:
        InvalidRequest: an id is missing or too long, the epoch is below -1, or a join names no
            topic.
    """
    check_member_id(request.member_id)
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topics:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")


def check_member_epoch(received: int, current: int, previous: int) -> None:
    """Accept the member's epoch or its previous one: the response with the new epoch may have been
    lost.

    Raises:
        FencedMemberEpoch: the epoch is neither of these.
    """
    if received in (current, previous):
        return
    than = "greater" if received > current else "smaller"
    mismatch = (
        ""
        if received > current
        else f", and it does not match the previous member epoch ({previous})"
    )
    raise FencedMemberEpoch(
        f"The share group member has a {than} member epoch ({received}) than the one known by the "
        f"group coordinator ({current}){mismatch}. "
        "The member must abandon all its partitions and rejoin."
    )
