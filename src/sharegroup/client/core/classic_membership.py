"""A member of a consumer group by the classic protocol: JoinGroup, SyncGroup, Heartbeat (Kafka
classes ConsumerCoordinator and AbstractCoordinator).

::

    UNSUBSCRIBED ─subscribe─▶ JOINING ─answer─▶ SYNCING ─assignment─▶ CHANGING ─told─▶ STABLE
         ▲                      ▲  └─leader─▶ LEADING ─lead()─▲                          │
       left                     └──────────── CHANGING (revoke) ◀──────rebalance─────────┘
         └── LEAVING ◀─leave─ any         any ──fatal error──▶ FAILED;  polled too late ──▶ STALE

The machine says which request is due and takes its answer. While a join or a sync is under way
there is no heartbeat: the coordinator keeps the member alive. One request is under way at a time.

With the cooperative protocol (KIP-429) a member keeps its partitions while it joins. When the
leader takes some of them, the member gives these up and joins again, so that others can have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sharegroup.client.core.access_errors import error_of_member
from sharegroup.client.core.assignors import (
    Assignment,
    Assignor,
    RebalanceProtocol,
    Subscriber,
    common_protocol,
)
from sharegroup.client.core.key_ranges import KeyRange
from sharegroup.client.core.key_sharing import Parts, share
from sharegroup.client.core.rebalance import (
    NO_PARTITIONS,
    NO_PARTS,
    AssignmentChange,
    GroupMembership,
    GroupState,
    MemberIdentity,
    Partitions,
)
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    from_bytes,
    to_bytes,
)
from sharegroup.wire.internal.key_range_data import Held, from_user_data, to_user_data
from sharegroup.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sharegroup.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from sharegroup.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from sharegroup.wire.messages.leave_group import (
    MemberIdentity as LeavingMember,
)
from sharegroup.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
Request = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
Response = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse

_BEATING = (GroupState.STABLE, GroupState.CHANGING)


class ClassicMembership(GroupMembership):
    """See the module.

    Args:
        assignors: what this member offers, the best first.
        takes_key_ranges: this member can share a partition with others by the keys of its records;
            then all assignors must be eager.
        instance_id: a static member's name (KIP-345): it does not leave when it is closed.
        poll_interval_max_ms: also the time that others wait for this member in a rebalance.
    """

    def __init__(
        self,
        group_id: str,
        *,
        assignors: Sequence[Assignor],
        instance_id: str | None = None,
        rack_id: str | None = None,
        takes_key_ranges: bool = False,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        poll_interval_max_ms: int = 300_000,
    ) -> None:
        super().__init__(group_id, instance_id, poll_interval_max_ms)
        self.member_id = ""
        self.generation = NO_GENERATION
        self._assignors = {one.name: one for one in assignors}
        self._eager = common_protocol(assignors) is RebalanceProtocol.EAGER
        self._rack_id = rack_id
        self._session_timeout_ms = session_timeout_ms
        self._interval_ms = heartbeat_interval_ms
        self._chosen: Assignor | None = None
        self._members: dict[str, Subscriber] = {}
        self._assignments: Assignment = {}
        self._takes_key_ranges = takes_key_ranges
        self._given_parts: Mapping[str, Parts] = {}
        self._had = Held(frozenset(), {})  # assigned last: partitions, and key ranges of them
        self._partitions: dict[str, int] = {}  # what this member, as leader, has shared out
        self._again = False  # join again when the change has been told
        self._joined_topics: tuple[str, ...] = ()

    @property
    def identity(self) -> MemberIdentity:
        """The identity under which offsets are committed."""
        if self.generation == NO_GENERATION:
            return MemberIdentity(self.group_id)
        return MemberIdentity(self.group_id, self.generation, self.member_id, self.instance_id)

    @property
    def is_leader(self) -> bool:
        """This member shares out the partitions of its generation."""
        return bool(self._members)

    @property
    def group_topics(self) -> set[str]:
        """As leader: the topics of all members."""
        return {topic for one in self._members.values() for topic in one.topics}

    # --- the application's calls ------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], now_ms: int) -> None:
        """Replace the subscription."""
        self.topics = tuple(sorted(set(topics)))
        if self.state in (GroupState.UNSUBSCRIBED, GroupState.LEAVING, GroupState.FAILED):
            self.error = None
            self._polled_ms = now_ms
            self._join(now_ms)
        elif self.topics != self._joined_topics:
            self._rejoin(now_ms)

    def polled(self, now_ms: int) -> None:
        """The application is alive."""
        self._polled_ms = now_ms
        if self.state is GroupState.STALE and self.change is None:
            self._join(now_ms)

    def told(self, now_ms: int) -> None:
        """The application has been told of the change."""
        self._apply()
        if self.change is not None:
            return
        if self.state is GroupState.STALE:
            self._join(now_ms)
        elif self.state is not GroupState.CHANGING:
            return
        elif self._again or self.generation == NO_GENERATION:
            self._rejoin(now_ms)
        else:
            self.state = GroupState.STABLE

    def leave(self, now_ms: int) -> None:
        """Give everything up. The application has been told already."""
        known = self.member_id != "" and self.state is not GroupState.STALE
        tell = known and self.instance_id is None
        self.state = GroupState.LEAVING if tell else GroupState.UNSUBSCRIBED
        self.owned, self.parts, self.change, self.error = NO_PARTITIONS, NO_PARTS, None, None
        self._due_ms = now_ms
        if not tell:
            self._forget()

    # --- the leader -------------------------------------------------------------------------------

    def lead(self, partitions: Mapping[str, int], now_ms: int) -> None:
        """Share out the partitions of :attr:`group_topics`: topic → number of partitions."""
        assert self.state is GroupState.LEADING, "it does not lead"
        assert self._chosen is not None, "no assignor was chosen"
        self._partitions = dict(partitions)
        self._assignments, self._given_parts = share(self._chosen, self._members, partitions)
        self.state = GroupState.SYNCING
        self._due_ms = now_ms

    def saw_partitions(self, partitions: Mapping[str, int], now_ms: int) -> None:
        """As leader: the topics of the group have these partitions now."""
        if self.is_leader and dict(partitions) != self._partitions and self.state in _BEATING:
            self._partitions = dict(partitions)
            self._rejoin(now_ms)

    # --- requests ---------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`next_request` must be called next; None: not before something else comes."""
        if self.state in _BEATING:
            if self.generation == NO_GENERATION:
                return None  # first the application is told that all partitions are lost
            return min(self._due_ms, self._polled_ms + self._poll_interval_max_ms)
        if self.state in (GroupState.JOINING, GroupState.SYNCING, GroupState.LEAVING):
            return self._due_ms
        return None

    def next_request(self, now_ms: int) -> Request | None:
        """The request to send now; None: none is due. The caller answers with :meth:`answered` or
        :meth:`failed` before it asks again.
        """
        deadline = self.next_deadline_ms()
        if deadline is None or now_ms < deadline:
            return None
        if self.state is GroupState.JOINING:
            return self._join_request()
        if self.state is GroupState.SYNCING:
            return self._sync_request()
        if self.state is GroupState.LEAVING:
            return self._leave_request()
        if self._is_stale(now_ms):
            request = self._leave_request()
            self._lose_all()
            self._forget()
            self.state = GroupState.STALE
            return request
        self._due_ms = now_ms + self._interval_ms
        return HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)

    def _join_request(self) -> JoinGroupRequest:
        self._joined_topics = self.topics
        self._again = False
        owned = _by_topic(self.owned)
        told = ConsumerProtocolSubscription(
            topics=self.topics,
            user_data=to_user_data(*self._had) if self._takes_key_ranges else None,
            owned_partitions=owned,
            generation_id=self.generation,
            rack_id=self._rack_id,
        )
        metadata = to_bytes(told)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._poll_interval_max_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name in self._assignors],
        )

    def _sync_request(self) -> SyncGroupRequest:
        assert self._chosen is not None, "no assignor was chosen"
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._chosen.name,
            assignments=[
                SyncGroupRequestAssignment(member, self._assignment_of(member, wheres))
                for member, wheres in self._assignments.items()
            ],
        )

    def _assignment_of(self, member: str, wheres: Iterable[TopicPartition]) -> bytes:
        given = ConsumerProtocolAssignment(_by_topic(wheres))
        parts = self._given_parts.get(member)
        if parts:
            given.user_data = to_user_data(wheres, parts)
        return to_bytes(given)

    def _leave_request(self) -> LeaveGroupRequest:
        member = LeavingMember(self.member_id, self.instance_id)
        return LeaveGroupRequest(self.group_id, self.member_id, [member])

    # --- answers ----------------------------------------------------------------------------------

    def answered(
        self, response: Response, now_ms: int, retry_after_ms: int
    ) -> errors.KafkaError | None:
        """Take the answer to the request. Returns its error, which needs no further treatment."""
        code = response.error_code
        error = error_of_member(code, None, self.group_id) if code else None
        if isinstance(response, LeaveGroupResponse):
            self._left()
        elif isinstance(response, JoinGroupResponse):
            if isinstance(error, errors.MemberIdRequired) or error is None:
                self.member_id = response.member_id
            if error is None:
                self._joined(response, now_ms)
        elif isinstance(response, SyncGroupResponse) and error is None:
            self._synced(response, now_ms)
        if error is not None and not isinstance(response, LeaveGroupResponse):
            self.failed(error, now_ms, retry_after_ms)
        return error

    def failed(self, error: errors.KafkaError, now_ms: int, retry_after_ms: int) -> None:
        """The request had this error."""
        if self.state is GroupState.LEAVING:
            self._left()
        if self.state in (GroupState.UNSUBSCRIBED, GroupState.STALE, GroupState.LEAVING):
            return
        if isinstance(error, errors.MemberIdRequired):
            self._due_ms = now_ms
        elif isinstance(error, errors.RebalanceInProgress):
            if self.state is GroupState.JOINING:
                self._due_ms = now_ms + retry_after_ms
            else:
                self._rejoin(now_ms)
        elif isinstance(error, errors.IllegalGeneration | errors.UnknownMemberId):
            if isinstance(error, errors.UnknownMemberId):
                self.member_id = ""
            self.generation = NO_GENERATION
            self._lose_all()
            self._rejoin(now_ms)
        elif error.retriable:
            if self.state is GroupState.SYNCING:  # whether the broker got the request is unknown
                self._join(now_ms)
            self._due_ms = now_ms + retry_after_ms
        else:
            self._lose_all()
            self.state, self.error = GroupState.FAILED, error

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        if self.state is not GroupState.JOINING:
            return
        self._chosen = self._assignors.get(response.protocol_name or "")
        if self._chosen is None:
            why = f"the group agreed on {response.protocol_name!r}, which this member does not have"
            self.failed(errors.InconsistentGroupProtocol(why), now_ms, 0)
            return
        self.generation = response.generation_id
        self._members, self._assignments = {}, {}
        self._due_ms = now_ms
        if response.leader != self.member_id or response.skip_assignment:
            self.state = GroupState.SYNCING
            return
        self._members = {
            one.member_id: _subscriber(one.metadata, one.group_instance_id)
            for one in response.members
        }
        self.state = GroupState.LEADING

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        if self.state is not GroupState.SYNCING:
            return
        self._due_ms = now_ms + self._interval_ms
        try:
            given, parts = _assigned(response.assignment)
        except errors.MalformedMessage as error:
            why = f"the assignment of the group's leader cannot be read: {error}"
            self.failed(errors.InconsistentGroupProtocol(why), now_ms, 0)
            return
        if parts and not self._takes_key_ranges:
            refused = errors.ConsumerRangeFetchNotAccepted("this consumer has no key_ranges=True")
            self.failed(refused, now_ms, 0)
            return
        self._had = Held(given, parts)
        revoked, assigned = self.owned - given, given - self.owned
        self._again = bool(revoked)  # other members wait for these partitions
        self.state = GroupState.STABLE
        if revoked or assigned:
            new = {w: tuple(KeyRange(*each) for each in own) for w, own in parts.items()}
            self.change = AssignmentChange(revoked=revoked, assigned=assigned, parts=new)
            self.state = GroupState.CHANGING

    # --- inside -----------------------------------------------------------------------------------

    def _rejoin(self, now_ms: int) -> None:
        """Join again, once the partitions that must be given up before it have been given up."""
        if self.state in (GroupState.STALE, GroupState.LEAVING, GroupState.UNSUBSCRIBED):
            return
        if self.change is None:
            revoked = self.owned if self._eager else self._unwanted()
            self.change = AssignmentChange(revoked=revoked) if revoked else None
        if self.change is None:
            self._join(now_ms)
        else:
            self._again = True
            self._due_ms = max(self._due_ms, now_ms)
            self.state = GroupState.CHANGING

    def _unwanted(self) -> Partitions:
        return frozenset(where for where in self.owned if where.topic not in self.topics)

    def _join(self, now_ms: int) -> None:
        self.state = GroupState.JOINING
        self._members = {}
        self._due_ms = now_ms

    def _forget(self) -> None:
        self.member_id, self.generation = "", NO_GENERATION
        self._members, self._again = {}, False

    def _left(self) -> None:
        if self.state is GroupState.LEAVING:
            self.state = GroupState.UNSUBSCRIBED
            self._forget()

    def check_invariants(self) -> None:
        """Raises AssertionError: the state contradicts itself."""
        super().check_invariants()
        assert (self.state is GroupState.CHANGING) <= (self.change is not None), "no change waits"
        if self._eager and self.state in (GroupState.SYNCING, GroupState.LEADING):
            assert not self.owned, "an eager member joined with partitions"
        if self.state is GroupState.JOINING:
            assert self.change is None, "it joins before its partitions are given up"


def _by_topic(wheres: Iterable[TopicPartition]) -> list[TopicPartitions]:
    found: dict[str, list[int]] = {}
    for where in sorted(wheres):
        found.setdefault(where.topic, []).append(where.partition)
    return [TopicPartitions(topic, numbers) for topic, numbers in found.items()]


def _flat(topics: Iterable[TopicPartitions]) -> Iterable[TopicPartition]:
    return (TopicPartition(one.topic, number) for one in topics for number in one.partitions)


def _subscriber(metadata: bytes, instance_id: str | None) -> Subscriber:
    """What a member said when it joined. If that cannot be read, the member gets no partitions,
    and does not hold up the others."""
    try:
        told = from_bytes(ConsumerProtocolSubscription, metadata)
        held = from_user_data(told.user_data)
    except errors.MalformedMessage:
        return Subscriber((), instance_id=instance_id)
    owned = tuple(_flat(told.owned_partitions))
    one = Subscriber(tuple(told.topics), owned, told.generation_id, instance_id)
    return one if held is None else one._replace(parts=held.parts, had=held.partitions)


def _assigned(content: bytes) -> tuple[Partitions, dict[TopicPartition, Intervals]]:
    """The assigned partitions, and the key ranges of partitions that are not assigned whole. No
    bytes mean no partitions: the leader did not know us. Raises MalformedMessage."""
    if not content:
        return NO_PARTITIONS, {}
    told = from_bytes(ConsumerProtocolAssignment, content)
    given = frozenset(_flat(told.assigned_partitions))
    held = from_user_data(told.user_data)
    parts = {} if held is None else {w: own for w, own in held.parts.items() if w in given}
    return given, parts
