"""Both membership machines beside naive coordinators: no partition is with two members at once, and
in the end each is with one.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.assignors import ASSIGNORS
from sharegroup.client.core.classic_membership import ClassicMembership, Request, Response
from sharegroup.client.core.consumer_membership import ConsumerMembership
from sharegroup.client.core.rebalance import GroupState
from sharegroup.model.errors import (
    ConsumerRangeFetchNotAccepted,
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sharegroup.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sharegroup.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from sharegroup.wire.messages.ranges import PartitionRanges, Range, parts_of
from sharegroup.wire.messages.sync_group import SyncGroupResponse

COUNT = 5
TOPIC = UUID(int=7)
EVERYTHING = {TopicPartition("t", number) for number in range(COUNT)}
MEMBERS = 3


class ClassicGroup:
    """A coordinator that knows nothing but the rules: all join, the leader shares out."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, bytes] = {}
        self.joining: dict[str, Callable[[Response], None]] = {}
        self.syncing: dict[str, Callable[[Response], None]] = {}
        self.assignments: dict[str, bytes] | None = None
        self.preparing = False
        self.protocol = ""
        self._ids = 0

    def send(self, request: Request, answer: Callable[[Response], None]) -> None:
        if isinstance(request, JoinGroupRequest):
            self._join(request, answer)
        elif isinstance(request, LeaveGroupRequest):
            self.forget(request.member_id)
            answer(LeaveGroupResponse())
        elif request.member_id not in self.members:
            answer(_kind(request)(error_code=UnknownMemberId.code))
        elif request.generation_id != self.generation:
            answer(_kind(request)(error_code=IllegalGeneration.code))
        elif self.preparing:
            answer(_kind(request)(error_code=RebalanceInProgress.code))
        elif isinstance(request, HeartbeatRequest):
            answer(HeartbeatResponse())
        else:
            self.syncing[request.member_id] = answer
            if request.assignments:
                self.assignments = {one.member_id: one.assignment for one in request.assignments}
            self._answer_syncs()

    def _join(self, request: JoinGroupRequest, answer: Callable[[Response], None]) -> None:
        member_id = request.member_id
        if not member_id:
            self._ids += 1
            name = f"m{self._ids}"
            answer(JoinGroupResponse(error_code=MemberIdRequired.code, member_id=name))
            return
        if member_id in self.joining:
            return
        self.protocol = request.protocols[0].name
        self.members[member_id] = request.protocols[0].metadata
        self.joining[member_id] = answer
        self.rebalance()

    def forget(self, member_id: str) -> None:
        """It left, or its session ended."""
        if self.members.pop(member_id, None) is not None:
            self.joining.pop(member_id, None)
            self.syncing.pop(member_id, None)
            self.rebalance()

    def rebalance(self) -> None:
        self.preparing = True
        syncing, self.syncing = self.syncing, {}
        for answer in syncing.values():
            answer(SyncGroupResponse(error_code=RebalanceInProgress.code))
        if self.members and self.joining.keys() == self.members.keys():
            self.preparing, self.assignments = False, None
            self.generation += 1
            joining, self.joining = self.joining, {}
            leader = min(joining)
            told = [JoinGroupResponseMember(m, None, data) for m, data in self.members.items()]
            for member_id, answer in joining.items():
                answer(
                    JoinGroupResponse(
                        generation_id=self.generation,
                        protocol_name=self.protocol,
                        leader=leader,
                        member_id=member_id,
                        members=told if member_id == leader else [],
                    )
                )

    def _answer_syncs(self) -> None:
        if self.assignments is not None:
            syncing, self.syncing = self.syncing, {}
            for member_id, answer in syncing.items():
                answer(SyncGroupResponse(assignment=self.assignments.get(member_id, b"")))


def _kind(request: Request) -> type[HeartbeatResponse] | type[SyncGroupResponse]:
    return HeartbeatResponse if isinstance(request, HeartbeatRequest) else SyncGroupResponse


class ClassicWorld:
    def __init__(self, assignor: str) -> None:
        self.group = ClassicGroup()
        self.now = 0
        self.members = [
            ClassicMembership("g", assignors=[ASSIGNORS[assignor]]) for _ in range(MEMBERS)
        ]
        self.asked = [False] * MEMBERS

    def do(self, number: int, what: str) -> None:
        member = self.members[number]
        self.now += 1_000
        if what == "send":
            self._send(number)
        elif what == "tell" and member.change is not None:
            member.polled(self.now)
            member.tell()
            member.told(self.now)
        elif what == "poll":
            member.polled(self.now)
        elif what == "subscribe":
            member.subscribe(["t"], self.now)
        elif what == "leave" and not self.asked[number]:
            member.leave(self.now)
        elif what == "expire" and not self.asked[number]:
            self.group.forget(member.member_id)
        self.check()

    def _send(self, number: int) -> None:
        member = self.members[number]
        if self.asked[number]:
            return
        if member.state is GroupState.LEADING:
            member.lead({"t": COUNT}, self.now)
        request = member.next_request(self.now)
        if request is None:
            return
        self.asked[number] = True

        def answer(response: Response) -> None:
            self.asked[number] = False
            member.answered(response, self.now, 0)

        self.group.send(request, answer)

    def check(self) -> None:
        held: list[TopicPartition] = []
        for member in self.members:
            member.check_invariants()
            if member.member_id in self.group.members:  # others are told that all is lost
                held += member.owned
        assert len(held) == len(set(held))

    def settle(self) -> None:
        for _ in range(60):
            for number in range(MEMBERS):
                for what in ("poll", "tell", "send"):
                    self.do(number, what)


ACTIONS = ("send", "tell", "poll", "subscribe", "leave", "expire")
steps = st.lists(st.tuples(st.integers(0, MEMBERS - 1), st.sampled_from(ACTIONS)), max_size=60)


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(what=steps)
def test_classic_members_share_all_and_nothing_twice(
    assignor: str, what: list[tuple[int, str]]
) -> None:
    world = ClassicWorld(assignor)
    for number, action in what:
        world.do(number, action)
    for number in range(MEMBERS):
        world.do(number, "subscribe")
    world.settle()
    assert all(member.state is GroupState.STABLE for member in world.members)
    owned = [where for member in world.members for where in member.owned]
    assert sorted(owned) == sorted(EVERYTHING)
    assert max(len(member.owned) for member in world.members) <= 2


class ModernGroup:
    """A coordinator of KIP-848 by its simplest rules: partition n belongs to the n-th member, as
    soon as nobody else says that it has it.
    """

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.holds: dict[str, set[int]] = {}
        self.epoch = 0

    def answer(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        member = request.member_id
        if request.member_epoch < 0:
            self.forget(member)
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            self.epoch += 1
            self.holds[member] = set()
        elif member not in self.epochs:
            return ConsumerGroupHeartbeatResponse(error_code=UnknownMemberId.code)
        elif request.member_epoch != self.epochs[member]:
            return ConsumerGroupHeartbeatResponse(error_code=FencedMemberEpoch.code)
        self.epochs[member] = self.epoch
        if request.topic_partitions is not None:
            has = {n for topic in request.topic_partitions for n in topic.partitions}
            self.holds[member] &= has  # the rest it has given up
        order = sorted(self.epochs)
        wanted = {n for n in range(COUNT) if order[n % len(order)] == member}
        if not self.holds[member] - wanted:  # what is to go, is gone
            taken = set().union(*(h for name, h in self.holds.items() if name != member))
            self.holds[member] |= wanted - taken
            given_out = self.holds[member]
        else:
            given_out = self.holds[member] & wanted
        return ConsumerGroupHeartbeatResponse(
            member_id=member,
            member_epoch=self.epoch,
            heartbeat_interval_ms=1_000,
            assignment=Assignment([TopicPartitions(TOPIC, sorted(given_out))]),
        )

    def forget(self, member: str) -> None:
        self.epochs.pop(member, None)
        self.holds.pop(member, None)


class ModernWorld:
    def __init__(self) -> None:
        self.group = ModernGroup()
        self.members = [ConsumerMembership("g", f"m{number}") for number in range(MEMBERS)]
        self.now = 0

    def do(self, number: int, action: str) -> None:
        self.now += 1_000
        member = self.members[number]
        if action == "send":
            self._send(member)
        elif action == "tell" and member.tell() is not None:
            member.told(self.now)
        elif action == "poll":
            member.polled(self.now)
        elif action == "subscribe":
            member.subscribe(["t"], self.now)
        elif action == "leave":
            member.leave(self.now)
        elif action == "expire":
            self.group.forget(member.member_id)
        self.check()

    def _send(self, member: ConsumerMembership) -> None:
        request = member.next_request(self.now)
        if request is not None:
            member.answered(self.group.answer(request), self.now, 0)
            if member.unnamed:
                member.learn({TOPIC: "t"})

    def check(self) -> None:
        held: list[TopicPartition] = []
        for one in self.members:
            one.check_invariants()
            epoch = self.group.epochs.get(one.member_id)
            if epoch == one.identity.generation_id:  # others are told that all is lost
                held += one.owned
        assert len(held) == len(set(held))


@given(what=steps)
def test_modern_members_share_all_and_nothing_twice(what: list[tuple[int, str]]) -> None:
    world = ModernWorld()
    for number, action in what:
        world.do(number, action)
    for number in range(MEMBERS):
        world.do(number, "subscribe")
    for _ in range(20):
        for number in range(MEMBERS):
            for action in ("poll", "tell", "send"):
                world.do(number, action)
    owned = [where for one in world.members for where in one.owned]
    assert sorted(owned) == sorted(EVERYTHING)


def test_all_that_was_lost_while_the_application_was_told_is_told_next() -> None:
    member = ConsumerMembership("g", "m")
    member.subscribe(["t"], 0)
    assert member.next_request(0) is not None
    first = ConsumerGroupHeartbeatResponse(
        member_epoch=1,
        heartbeat_interval_ms=1_000,
        assignment=Assignment([TopicPartitions(TOPIC, [0, 1])]),
    )
    member.answered(first, 0, 0)
    assert member.unnamed == {TOPIC}
    member.learn({TOPIC: "t"})
    assert member.tell() is not None
    assert member.next_request(2_000) is not None
    member.failed(FencedMemberEpoch(), 2_000, 0)
    member.told(2_000)
    change = member.tell()
    assert change is not None
    assert change.lost == {TopicPartition("t", 0), TopicPartition("t", 1)}
    member.told(2_000)
    request = member.next_request(2_000)
    assert request is not None
    assert (request.member_epoch, request.topic_partitions) == (0, [])


def test_a_refusal_for_good_ends_it_and_a_passing_one_does_not() -> None:
    member = ConsumerMembership("g", "m")
    member.subscribe(["t"], 0)
    assert member.next_request(0) is not None
    member.failed(CoordinatorLoadInProgress(), 0, 50)
    assert member.next_deadline_ms() == 50
    request = member.next_request(50)
    assert request is not None
    assert request.subscribed_topic_names == ("t",)  # whether it was heard is not known
    member.failed(GroupAuthorizationFailed(), 50, 50)
    assert member.state is GroupState.FAILED
    assert isinstance(member.error, GroupAuthorizationFailed)
    assert member.next_deadline_ms() is None


def given(*parts: tuple[int, int], epoch: int) -> ConsumerGroupHeartbeatResponse:
    """An assignment of these hashes of partition 0; none: all of it."""
    ranges = [PartitionRanges(0, [Range(*part) for part in parts])] if parts else []
    return ConsumerGroupHeartbeatResponse(
        member_epoch=epoch,
        heartbeat_interval_ms=1_000,
        assignment=Assignment([TopicPartitions(TOPIC, [0], ranges)]),
    )


def test_other_key_ranges_of_a_partition_are_a_partition_given_up_and_a_new_one() -> None:
    where = TopicPartition("t", 0)
    member = ConsumerMembership("g", "m", takes_key_ranges=True)
    member.subscribe(["t"], 0)
    member.learn({TOPIC: "t"})
    for epoch, parts in enumerate([(), ((0, 10), (20, 30)), ((0, 10),), ()], start=1):
        now = 2_000 * epoch
        request = member.next_request(now)
        assert request is not None
        assert request.takes_key_ranges
        member.answered(given(*parts, epoch=epoch), now, 0)
        change = member.tell()
        assert change is not None
        assert change.revoked == (set() if epoch == 1 else {where})
        assert change.assigned == {where}
        assert dict(change.parts) == ({where: parts} if parts else {})
        member.check_invariants()
        member.told(now)
        member.check_invariants()
        request = member.next_request(now)
        assert request is not None
        assert request.topic_partitions is not None
        (owned,) = request.topic_partitions
        assert parts_of(owned.key_ranges, owned.partitions) == ({0: parts} if parts else {})
        member.answered(ConsumerGroupHeartbeatResponse(member_epoch=epoch), now, 0)


def test_a_member_that_takes_whole_partitions_refuses_a_part() -> None:
    """KIP-X, failure row 3a."""
    member = ConsumerMembership("g", "m")
    member.subscribe(["t"], 0)
    assert member.next_request(0) is not None
    error = member.answered(given((0, 10), epoch=1), 0, 0)
    assert isinstance(error, ConsumerRangeFetchNotAccepted)
    assert member.state is GroupState.FAILED


@pytest.mark.parametrize("part", [(10, 0), (-1, 5), (0, 2**63 - 1)])
def test_malformed_key_ranges(part: tuple[int, int]) -> None:
    member = ConsumerMembership("g", "m", takes_key_ranges=True)
    member.subscribe(["t"], 0)
    assert member.next_request(0) is not None
    answer = given(part, epoch=1)
    if part == (0, 2**63 - 1):  # a whole partition, in other words
        assert member.answered(answer, 0, 0) is None
        member.learn({TOPIC: "t"})
        change = member.tell()
        assert change is not None
        assert not change.parts
    else:
        assert isinstance(member.answered(answer, 0, 0), UnknownServerError)
        assert member.state is GroupState.FAILED
