"""Random lives of a group whose members share partitions by key ranges (KIP-X), beside what each
client believes it owns. No hash of a partition has two owners at any time, and in the end each has
one.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE
from sharegroup.cooperative.intervals import Intervals, common, minus, size, union
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat, check_heartbeat
from sharegroup.groups.consumer.member import ConsumerGroupState, ConsumerMember
from sharegroup.groups.consumer.records import ConsumerRecord
from sharegroup.groups.topics import KnownTopic, TopicsImage
from sharegroup.model.errors import FencedMemberEpoch, UnknownMemberId
from sharegroup.wire.internal.consumer_groups import decode_record, encode_record

MEMBERS = tuple("abcdefgh")
NAMES = ("orders", "planes")
SETTINGS = GroupSettings(consumer_session_timeout_ms=10_000, consumer_assignment_interval_ms=1_000)
REBALANCE_MS = 4_000
Owned = dict[tuple[UUID, int], Intervals]


class Client:
    """A member as it sees itself: it owns what it was told to give back until it says otherwise."""

    def __init__(self, takes_ranges: bool, assignor: str | None) -> None:
        self.takes_ranges = takes_ranges
        self.assignor = assignor
        self.start_anew()

    def start_anew(self) -> None:
        """Own nothing, and join with the next heartbeat."""
        self.epoch = 0
        self.assigned: Owned = {}
        self.owned: Owned = {}
        self.must_say_all = True


def listed(owned: Owned) -> tuple[dict[UUID, frozenset[int]], dict[UUID, dict[int, Intervals]]]:
    """The two fields of a heartbeat that say it."""
    topics = {topic for topic, _ in owned}
    return (
        {topic: frozenset(p for t, p in owned if t == topic) for topic in topics},
        {
            topic: {p: part for (t, p), part in owned.items() if t == topic and part != WHOLE}
            for topic in topics
        },
    )


class SharingMachine(RuleBasedStateMachine):
    """One group. A client that is fenced or unknown gives up what it has and joins again."""

    @initialize(partitions=st.integers(1, 3))
    def start(self, partitions: int) -> None:
        self.now_ms = 0
        self.log: list[ConsumerRecord] = []
        self.groups = ConsumerGroups(lambda _: SETTINGS)
        self.clients: dict[str, Client] = {}
        self.partitions = partitions
        self.image = TopicsImage(
            {name: KnownTopic(UUID(int=at + 1), partitions) for at, name in enumerate(NAMES)}
        )

    def known(self) -> dict[str, ConsumerMember]:
        if not self.groups.exists("g"):
            return {}
        return {member.member_id: member for member in self.groups.describe("g").members}

    def heartbeat_of(self, member: str, *, confirms: bool = True, lost: bool = False) -> None:
        client = self.clients[member]
        full = client.epoch == 0 or client.must_say_all
        if confirms:
            client.owned = client.assigned
        owned, parts = listed({} if client.epoch == 0 else client.owned)
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=member,
            member_epoch=client.epoch,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topics=NAMES if full else None,
            server_assignor=client.assignor if full else None,
            takes_ranges=client.takes_ranges,
            owned=owned if full or confirms else None,
            owned_parts=parts if full or confirms else {},
        )
        check_heartbeat(request, ("uniform", "range"), own_id=True)
        try:
            result = self.groups.heartbeat(request, self.image, self.now_ms)
        except (FencedMemberEpoch, UnknownMemberId):
            client.start_anew()
            return
        self.log += result.records
        if lost:
            client.must_say_all = True
            return
        client.epoch = result.member_epoch
        client.must_say_all = False
        if result.assignment is None:
            return
        client.assigned = {
            (topic, p): result.parts.get(topic, {}).get(p, WHOLE)
            for topic, partitions in result.assignment.items()
            for p in partitions
        }
        assert client.takes_ranges or not result.parts
        if not any(minus(part, client.assigned.get(k, ())) for k, part in client.owned.items()):
            client.owned = client.assigned

    @rule(
        member=st.sampled_from(MEMBERS),
        takes_ranges=st.sampled_from((True, True, True, False)),
        assignor=st.sampled_from((None, "uniform", "range")),
    )
    def join(self, member: str, takes_ranges: bool, assignor: str | None) -> None:
        """Or join again, perhaps with another mind about ranges."""
        if member in self.clients and self.clients[member].takes_ranges != takes_ranges:
            self.clients[member] = Client(takes_ranges, assignor)
        self.clients.setdefault(member, Client(takes_ranges, assignor))
        self.heartbeat_of(member)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), confirms=st.booleans(), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, confirms: bool, lost: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.clients)))
        self.heartbeat_of(member, confirms=confirms, lost=lost)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(sorted(self.clients)))
        if member in self.known():
            request = ConsumerHeartbeat(group_id="g", member_id=member, member_epoch=-1)
            self.log += self.groups.heartbeat(request, self.image, self.now_ms).records
        del self.clients[member]

    @rule(ms=st.sampled_from((300, 1_000, 3_000, 8_000)))
    def time_passes(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (due := self.groups.next_deadline_ms()) is not None and due <= end_ms:
            self.now_ms = due
            self.log += self.groups.tick(self.image, due)
        self.now_ms = end_ms

    @rule()
    def restart(self) -> None:
        """The bytes of the log give the same group."""
        again = ConsumerGroups(lambda _: SETTINGS)
        for record in self.log:
            decoded = decode_record(*encode_record(record))
            assert decoded == record
            again.table.replay(decoded)
        again.sessions_restarted(self.now_ms)
        if self.groups.exists("g"):
            assert again.describe("g") == self.groups.describe("g")
        self.groups = again

    @precondition(lambda self: self.clients)
    @rule()
    def come_to_rest(self) -> None:
        """When all clients go on, each hash of each partition soon has one owner."""
        for _ in range(14):
            self.time_passes(1_000)
            for member in sorted(self.clients):
                self.heartbeat_of(member)
        group = self.groups.describe("g")
        assert group.state is ConsumerGroupState.STABLE
        written = len(self.log)
        for member in sorted(self.clients):
            self.heartbeat_of(member)
        assert len(self.log) == written, "nothing is written at rest"
        for name in NAMES:
            topic_id = self.image.topics[name].topic_id
            for partition in range(self.partitions):
                parts = [c.owned.get((topic_id, partition), ()) for c in self.clients.values()]
                everything: Intervals = ()
                for part in parts:
                    everything = union(everything, part)
                assert everything == WHOLE
                assert sum(map(size, parts)) == HASH_MAX + 1
        if all(client.takes_ranges for client in self.clients.values()):
            self.check_shared()

    def check_shared(self) -> None:
        """Members that outnumber the partitions all have a part of each topic, none has much more
        than another of its partition."""
        if len(self.clients) < self.partitions:
            return
        for name in NAMES:
            topic_id = self.image.topics[name].topic_id
            for client in self.clients.values():
                had = {p: part for (t, p), part in client.owned.items() if t == topic_id}
                if len(self.clients) > self.partitions:
                    assert len(had) == 1
                    crowd = -(-len(self.clients) // self.partitions)
                    assert size(*had.values()) >= (HASH_MAX + 1) // crowd

    @invariant()
    def all_holds(self) -> None:
        """No two clients believe that they own one hash, unless one of them has been fenced and
        has not heard of it."""
        self.groups.check_invariants()
        taken: Owned = {}
        for member_id, member in self.known().items():
            client = self.clients.get(member_id)
            if client is None or client.epoch not in (member.epoch, member.previous_epoch):
                continue
            held = dict(member.parts_held())
            for key, part in client.owned.items():
                assert not common(taken.get(key, ()), part)
                taken[key] = union(taken.get(key, ()), part)
                assert not minus(part, held.get(key, ())), "it owns no more than is known of it"


SharingMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestSharing = SharingMachine.TestCase
TestSharing.pytestmark = [pytest.mark.timeout(120)]
