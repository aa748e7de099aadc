"""A member of a consumer group by the protocol of KIP-848: heartbeats only; the coordinator shares
out the partitions (Kafka class ConsumerMembershipManager).

::

    UNSUBSCRIBED ─subscribe─▶ JOINING ─answer─▶ STABLE ◀─told, owned is sent─ CHANGING
         ▲                       ▲                 └────new assignment───────────▲
       left                      └── fenced: told that all is lost
         └── LEAVING ◀─leave─ any      any ──fatal error──▶ FAILED;  polled too late ──▶ STALE

An assignment names topics by id. :attr:`ConsumerMembership.unnamed` are the ids whose names are not
known here; the caller looks them up and calls :meth:`ConsumerMembership.learn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from sharegroup.client.core.access_errors import error_of_member
from sharegroup.client.core.key_ranges import KeyRange, KeyRanges
from sharegroup.client.core.rebalance import (
    NO_PARTITIONS,
    NO_PARTS,
    AssignmentChange,
    GroupMembership,
    GroupState,
    MemberIdentity,
    Partitions,
)
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sharegroup.wire.messages.ranges import parts_of, ranges_of

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
EARLY_HEARTBEAT_MS: Final = 100
EARLY_HEARTBEAT_MAX_MS: Final = 500

_BEATING = (GroupState.JOINING, GroupState.STABLE, GroupState.CHANGING)


class ConsumerMembership(GroupMembership):
    """See the module.

    Args:
        member_id: this process's own choice, for its whole life (version 1 of the heartbeat).
        assignor: the coordinator's assignor; None: its default.
        takes_key_ranges: this member can share a partition with others by the keys of its records.
        cooperative: this member can share a partition with others by fetching from it in turns.
        poll_interval_max_ms: also the time in which this member must give up partitions.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        instance_id: str | None = None,
        rack_id: str | None = None,
        assignor: str | None = None,
        takes_key_ranges: bool = False,
        cooperative: bool = False,
        poll_interval_max_ms: int = 300_000,
    ) -> None:
        super().__init__(group_id, instance_id, poll_interval_max_ms)
        self.member_id = member_id
        self.pattern: str | None = None
        self._had_pattern = False
        self._rack_id = rack_id
        self._assignor = assignor
        self._takes_key_ranges = takes_key_ranges or cooperative
        self._cooperative = cooperative
        self._epoch = JOIN_EPOCH
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, UUID] = {}
        self._target: dict[UUID, tuple[int, ...]] | None = None
        self._target_parts: dict[UUID, dict[int, KeyRanges]] = {}
        self._all_told = False
        self._owned_told = False
        self._leaving = False
        self._known = False
        self._early_ms = EARLY_HEARTBEAT_MS
        self._early_until_ms = 0

    @property
    def identity(self) -> MemberIdentity:
        """The identity under which offsets are committed."""
        if self._epoch <= JOIN_EPOCH:
            return MemberIdentity(self.group_id)
        return MemberIdentity(self.group_id, self._epoch, self.member_id, self.instance_id)

    @property
    def unnamed(self) -> set[UUID]:
        """The ids of assigned topics whose names are not known."""
        return {topic for topic in self._target or () if topic not in self._names}

    # --- the application's calls ------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], now_ms: int, *, pattern: str | None = None) -> None:
        """Replace the subscription. ``pattern``: an expression of RE2, which the broker applies."""
        self._had_pattern = self._had_pattern or self.pattern is not None
        self.topics, self.pattern = tuple(sorted(set(topics))), pattern
        self._all_told = False
        self._due_ms = now_ms
        if self.state in (GroupState.UNSUBSCRIBED, GroupState.LEAVING, GroupState.FAILED):
            self.error = None
            self._polled_ms = now_ms
            self._join(now_ms)

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
        if self.state not in (GroupState.CHANGING, GroupState.STALE):
            return
        if self._epoch == JOIN_EPOCH:  # the member was fenced, or left
            self._join(now_ms)
            return
        self.state = GroupState.STABLE
        self._owned_told = False
        self._due_ms = now_ms
        self._reconcile()

    def leave(self, now_ms: int) -> None:
        """Give everything up. The application has been told already."""
        tell = self._known and self.state is not GroupState.STALE
        self.state = GroupState.LEAVING if tell else GroupState.UNSUBSCRIBED
        self.owned, self.parts, self.change, self.error = NO_PARTITIONS, NO_PARTS, None, None
        self.topics, self.pattern = (), None
        self._due_ms = now_ms

    def learn(self, names: Mapping[UUID, str]) -> None:
        """Take the names of topics, by id."""
        self._names.update(names)
        self._ids.update({name: topic for topic, name in names.items()})
        self._reconcile()

    # --- heartbeats -------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When :meth:`next_request` must be called next; None: not before something else comes."""
        if self.state in _BEATING:
            if self.state is GroupState.CHANGING and self._epoch == JOIN_EPOCH:
                return None  # first the application is told that all partitions are lost
            return min(self._due_ms, self._polled_ms + self._poll_interval_max_ms)
        return self._due_ms if self.state is GroupState.LEAVING else None

    def next_request(self, now_ms: int) -> ConsumerGroupHeartbeatRequest | None:
        """The heartbeat to send now; None: none is due. The caller answers with :meth:`answered`
        or :meth:`failed` before it asks again.
        """
        deadline = self.next_deadline_ms()
        if deadline is None or now_ms < deadline:
            return None
        self._leaving = self.state is GroupState.LEAVING
        if not self._leaving and self._is_stale(now_ms):
            self._lose_all()
            self.state = GroupState.STALE
            self._leaving = True
        if self._leaving:
            epoch = LEAVE_EPOCH if self.instance_id is None else STATIC_LEAVE_EPOCH
            self._epoch = JOIN_EPOCH
            return ConsumerGroupHeartbeatRequest(
                self.group_id, self.member_id, epoch, self.instance_id
            )
        return self._request()

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        full = not self._all_told
        owned = full or not self._owned_told
        self._all_told = self._owned_told = self._known = True
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self.instance_id,
            topic_partitions=self._owned_by_id() if owned else None,
        )
        if full:
            request.rack_id = self._rack_id
            request.rebalance_timeout_ms = self._poll_interval_max_ms
            request.subscribed_topic_names = self.topics
            # An empty expression removes the earlier one from the subscription.
            request.subscribed_topic_regex = self.pattern or ("" if self._had_pattern else None)
            request.server_assignor = self._assignor
        request.takes_key_ranges = self._takes_key_ranges
        request.cooperative = self._cooperative
        return request

    def _owned_by_id(self) -> list[TopicPartitions]:
        found: dict[UUID, list[int]] = {}
        for where in sorted(self.owned):
            found.setdefault(self._ids[where.topic], []).append(where.partition)
        parts: dict[UUID, dict[int, KeyRanges]] = {}
        for where, own in self.parts.items():
            parts.setdefault(self._ids[where.topic], {})[where.partition] = own
        return [
            TopicPartitions(topic, numbers, ranges_of(parts.get(topic, {})))
            for topic, numbers in found.items()
        ]

    def answered(
        self, response: ConsumerGroupHeartbeatResponse, now_ms: int, retry_after_ms: int
    ) -> errors.KafkaError | None:
        """Take the answer to the heartbeat. Returns its error, which needs no further treatment."""
        if response.error_code:
            code, message = response.error_code, response.error_message
            error = error_of_member(code, message, self.group_id)
            self.failed(error, now_ms, retry_after_ms)
            return error
        if self._leaving:
            self._left()
            return None
        if self.state not in _BEATING:
            return None  # leave() was called meanwhile; its heartbeat is due now
        try:
            parts = self._checked_parts(response)
        except errors.KafkaError as error:
            self.failed(error, now_ms, retry_after_ms)
            return error
        joins = self.state is GroupState.JOINING
        self._epoch = response.member_epoch
        pause = response.heartbeat_interval_ms
        if joins:
            self.state = GroupState.STABLE
            self._early_until_ms = now_ms + 2 * pause
            self._early_ms = EARLY_HEARTBEAT_MS
        if response.assignment is not None:
            self._target_parts = parts
            self._target = {
                one.topic_id: tuple(one.partitions) for one in response.assignment.topic_partitions
            }
            self._owned_told = False
            self._reconcile()
        if not self.owned and self.change is None and now_ms < self._early_until_ms:
            pause = min(pause, self._early_ms)
            self._early_ms = min(2 * self._early_ms, EARLY_HEARTBEAT_MAX_MS)
        due_now = not self._all_told or not (self._owned_told or self.change or self.unnamed)
        self._due_ms = now_ms if due_now else now_ms + pause
        return None

    def _checked_parts(
        self, response: ConsumerGroupHeartbeatResponse
    ) -> dict[UUID, dict[int, KeyRanges]]:
        """The key ranges of an assignment. Raises KafkaError: they are malformed, or this member
        takes no key ranges."""
        try:
            parts = _parts(response)
        except ValueError as wrong:
            raise errors.UnknownServerError(f"the assignment is malformed: {wrong}") from wrong
        if any(parts.values()) and not self._takes_key_ranges:
            raise errors.ConsumerRangeFetchNotAccepted("this consumer has no key_ranges=True")
        return parts

    def failed(self, error: errors.KafkaError, now_ms: int, retry_after_ms: int) -> None:
        """The heartbeat had this error."""
        if self._leaving:
            self._left()  # if the group did not hear it, the session time-out will do it
            return
        if self.state not in _BEATING:
            return
        if isinstance(error, errors.UnknownMemberId | errors.FencedMemberEpoch):
            self._epoch, self._target = JOIN_EPOCH, None
            self._lose_all()
            if self.change is None:
                self._join(now_ms)
            else:
                self.state = GroupState.CHANGING
                self._due_ms = now_ms + retry_after_ms
        elif error.retriable:
            # Whether the broker got the heartbeat is unknown: the next one repeats everything.
            self._all_told = self._owned_told = False
            self._due_ms = now_ms + retry_after_ms
        else:
            self._lose_all()
            self.state, self.error = GroupState.FAILED, error

    # --- inside -----------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Compare what the member has with what it should have."""
        if self._target is None or self.change is not None or self.state is not GroupState.STABLE:
            return
        target, parts = self._named_target(), self._named_parts()
        others = {w for w in self.owned & target if self.parts.get(w) != parts.get(w)}
        revoked, assigned = self.owned - target | others, target - self.owned | others
        if revoked or assigned:
            new = {where: own for where, own in parts.items() if where in assigned}
            self.change = AssignmentChange(revoked=revoked, assigned=assigned, parts=new)
            self.state = GroupState.CHANGING

    def _named_parts(self) -> dict[TopicPartition, KeyRanges]:
        return {
            TopicPartition(self._names[topic], number): own
            for topic, parts in self._target_parts.items()
            if topic in self._names
            for number, own in parts.items()
        }

    def _named_target(self) -> Partitions:
        return frozenset(
            TopicPartition(self._names[topic], number)
            for topic, numbers in (self._target or {}).items()
            if topic in self._names
            for number in numbers
        )

    def _join(self, now_ms: int) -> None:
        self.state = GroupState.JOINING
        self._epoch, self._target = JOIN_EPOCH, None
        self._had_pattern = False
        self._all_told = self._owned_told = self._leaving = False
        self._due_ms = now_ms

    def _left(self) -> None:
        self._leaving = self._known = False
        self._epoch, self._target = JOIN_EPOCH, None
        if self.state is GroupState.LEAVING:
            self.state = GroupState.UNSUBSCRIBED

    def check_invariants(self) -> None:
        """Raises AssertionError: the state contradicts itself."""
        super().check_invariants()
        assert (self.state is GroupState.CHANGING) <= (self.change is not None), "no change waits"
        if self.state is GroupState.JOINING:
            assert not self.owned, "it joins with partitions"
            assert self.change is None, "it joins before the application was told"


def _parts(response: ConsumerGroupHeartbeatResponse) -> dict[UUID, dict[int, KeyRanges]]:
    """The key ranges of an assignment: topic → partition → ranges, without whole partitions.

    Raises:
        ValueError: they are malformed.
    """
    found = {}
    for one in response.assignment.topic_partitions if response.assignment is not None else ():
        parts = parts_of(one.key_ranges, one.partitions)
        found[one.topic_id] = {
            at: tuple(KeyRange(*each) for each in own) for at, own in parts.items()
        }
    return found
