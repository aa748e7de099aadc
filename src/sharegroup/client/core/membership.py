"""A member of a share group, as its heartbeats see it (KIP-932; Kafka class
ShareMembershipManager).

::

    UNSUBSCRIBED ──subscribe──▶ JOINING ──answer──▶ STABLE ◀─────┐
         ▲                        ▲                   │          │
         │                        └──────fenced───────┘       answer
       left                       └──────polled again──── STALE ◀─ poll too late
         │                                            │
      LEAVING ◀─────────────────leave─────────────────┘          any ──fatal error──▶ FAILED

The machine says when the next heartbeat is due and what is in it; answers and errors go in. It
keeps the assignment. A share group needs no handshake about revoked partitions: locks protect the
records. Time is an argument.

One deviation from Kafka's client: a member without partitions sends heartbeats after 100 ms, then
200, 400, and every 500 ms, for twice the group's own interval after joining. Apache Kafka assigns a
new group's partitions only in a later heartbeat; waiting a whole interval for it would make every
first record five seconds late.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition
from sharegroup.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
EARLY_HEARTBEAT_MS: Final = 100
EARLY_HEARTBEAT_MAX_MS: Final = 500
UNKNOWN_ERRORS_MAX: Final = 5
"""UNKNOWN_SERVER_ERROR may pass (a topic that is just being deleted); this many in a row do not."""


class MemberState(Enum):
    """See the module's diagram."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    STABLE = "stable"
    STALE = "stale"
    LEAVING = "leaving"
    FAILED = "failed"


class ShareMembership:
    """See the module.

    Args:
        poll_interval_max_ms: the application must call :meth:`polled` at least this often, or the
            member leaves so that others get its records; None: it need not.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        rack_id: str | None = None,
        poll_interval_max_ms: int | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.state = MemberState.UNSUBSCRIBED
        self.assignment: frozenset[TopicIdPartition] = frozenset()
        self.error: errors.KafkaError | None = None
        """Why the state is FAILED."""
        self._rack_id = rack_id
        self._poll_interval_max_ms = poll_interval_max_ms
        self._topics: tuple[str, ...] = ()
        self._topics_told = False
        self._known = False  # the group may know us: a join was sent
        self._asked_to_leave = False  # the request that was sent last asked to leave
        self._epoch = JOIN_EPOCH
        self._due_ms = 0
        self._early_ms = EARLY_HEARTBEAT_MS
        self._joined_ms = 0
        self._polled_ms = 0
        self._unknown_errors = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscription."""
        return self._topics

    @property
    def epoch(self) -> int:
        """The member epoch: 0 before the first answer."""
        return self._epoch

    # --- the application's calls ------------------------------------------------------------------

    def subscribe(self, topics: tuple[str, ...], now_ms: int) -> None:
        """Set the subscription; a heartbeat is due at once."""
        if self.state in (MemberState.UNSUBSCRIBED, MemberState.LEAVING, MemberState.FAILED):
            self._join(now_ms)
        self._topics = topics
        self._topics_told = False
        self._due_ms = now_ms
        self._polled_ms = now_ms

    def polled(self, now_ms: int) -> None:
        """Note that the application is alive. A member that left as STALE joins again."""
        self._polled_ms = now_ms
        if self.state is MemberState.STALE:
            self._join(now_ms)

    def overdue(self, now_ms: int) -> bool:
        """Whether the application has not polled for ``poll_interval_max_ms``."""
        limit = self._poll_interval_max_ms
        return limit is not None and now_ms >= self._polled_ms + limit

    def leave(self, now_ms: int) -> None:
        """Give everything up; a last heartbeat is due at once, if the group knows us."""
        self.state = MemberState.LEAVING if self._known else MemberState.UNSUBSCRIBED
        self._topics = ()
        self.assignment = frozenset()
        self._due_ms = now_ms

    def go_on_as(self, member_id: str, now_ms: int) -> None:
        """Another process is the member by now: join as a new one, unless we are leaving."""
        self.member_id = member_id
        self._known = False
        if self.state in (MemberState.JOINING, MemberState.STABLE):
            self._join(now_ms)

    # --- heartbeats -------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`heartbeat` must be called next; None while there is nothing to do."""
        if self.state in (MemberState.UNSUBSCRIBED, MemberState.STALE, MemberState.FAILED):
            return None
        if self.state is MemberState.STABLE and self._poll_interval_max_ms is not None:
            return min(self._due_ms, self._polled_ms + self._poll_interval_max_ms)
        return self._due_ms

    def heartbeat(self, now_ms: int) -> ShareGroupHeartbeatRequest | None:
        """The request to send now; None when none is due. The caller then calls :meth:`answered` or
        :meth:`failed`.
        """
        deadline = self.next_deadline_ms()
        if deadline is None or now_ms < deadline:
            return None
        if self.state is MemberState.STABLE and self.overdue(now_ms):
            self.state = MemberState.STALE
            self.assignment = frozenset()
        return self._request()

    def _request(self) -> ShareGroupHeartbeatRequest:
        leaving = self.state in (MemberState.LEAVING, MemberState.STALE)
        full = not leaving and (self._epoch == JOIN_EPOCH or not self._topics_told)
        self._topics_told = self._topics_told or full
        self._known = self._known or not leaving
        self._asked_to_leave = leaving
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if leaving else self._epoch,
            rack_id=self._rack_id if full else None,
            subscribed_topic_names=list(self._topics) if full else None,
        )

    def answered(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        """The answer came, without an error."""
        self._unknown_errors = 0
        if self._asked_to_leave:
            self._left()
            return
        if self.state not in (MemberState.JOINING, MemberState.STABLE):
            return  # told to leave meanwhile, which is due now
        self.state = MemberState.STABLE
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self.assignment = frozenset(
                TopicIdPartition(topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            )
        pause = response.heartbeat_interval_ms
        if not self.assignment and now_ms < self._joined_ms + 2 * pause:
            pause = min(pause, self._early_ms)
            self._early_ms = min(2 * self._early_ms, EARLY_HEARTBEAT_MAX_MS)
        self._due_ms = now_ms + pause if self._topics_told else now_ms

    def failed(self, error: errors.KafkaError, now_ms: int, retry_after_ms: int) -> None:
        """The heartbeat had this error. If a retry may help, the next one comes after
        ``retry_after_ms``.
        """
        if self._asked_to_leave:
            self._left()  # if the group did not hear it, the session time-out removes the member
            return
        if self.state not in (MemberState.JOINING, MemberState.STABLE):
            return  # told to leave meanwhile, which is due now
        if self._is_fenced(error):
            self._join(now_ms)
        elif self._may_pass(error):
            self._topics_told = False  # whether the broker has heard it is not known
            self._due_ms = now_ms + retry_after_ms
        else:
            self.state = MemberState.FAILED
            self.assignment = frozenset()
            self.error = error

    def _is_fenced(self, error: errors.KafkaError) -> bool:
        if isinstance(error, errors.GroupIdNotFound):
            return self._epoch != JOIN_EPOCH  # the group was deleted; joining makes it anew
        return isinstance(error, errors.UnknownMemberId | errors.FencedMemberEpoch)

    def _may_pass(self, error: errors.KafkaError) -> bool:
        if isinstance(error, errors.UnknownServerError):
            self._unknown_errors += 1
            return self._unknown_errors < UNKNOWN_ERRORS_MAX
        return error.retriable

    def _left(self) -> None:
        self._known = False
        self._asked_to_leave = False
        if self.state is MemberState.LEAVING:
            self.state = MemberState.UNSUBSCRIBED

    def _join(self, now_ms: int) -> None:
        self.state = MemberState.JOINING
        self.assignment = frozenset()
        self.error = None
        self._epoch = JOIN_EPOCH
        self._topics_told = False
        self._early_ms = EARLY_HEARTBEAT_MS
        self._joined_ms = now_ms
        self._due_ms = now_ms
