"""Random lives of a consumer group beside a naive model: what each client believes it owns, which
changes only as the protocol allows. No partition has two owners, and in the end each has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat, check_heartbeat
from sharegroup.groups.consumer.member import (
    ConsumerGroupState,
    ConsumerMember,
    ConsumerMemberState,
)
from sharegroup.groups.consumer.records import ConsumerRecord, plain
from sharegroup.groups.topics import KnownTopic, TopicsImage
from sharegroup.model.errors import FencedMemberEpoch, KafkaError, UnknownMemberId

NAMES = ("orders-eu", "orders-us", "planes")
MEMBERS = tuple("abcdef")
REGEXES = ("orders-.*", ".*")
SUBSCRIPTION = st.one_of(
    st.tuples(st.sets(st.sampled_from(NAMES), min_size=1).map(tuple), st.just("")),
    st.tuples(st.just(()), st.sampled_from(REGEXES)),
)
ASSIGNORS = ("uniform", "range")
SETTINGS = GroupSettings(consumer_session_timeout_ms=10_000, consumer_assignment_interval_ms=1_000)
REBALANCE_MS = 4_000
Partitions = dict[UUID, set[int]]


class Wish(NamedTuple):
    """A subscription."""

    names: tuple[str, ...]
    regex: str


class Client:
    """A member as it sees itself. What it was told to give back it goes on owning until it says
    that it does not.
    """

    def __init__(self, wish: Wish, static: bool) -> None:
        self.wish = wish
        self.static = static
        self.start_anew()

    def start_anew(self) -> None:
        """Own nothing, and join with the next heartbeat."""
        self.epoch = 0
        self.assigned: Partitions = {}
        self.owned: Partitions = {}
        self.must_say_all = True


class ConsumerGroupsMachine(RuleBasedStateMachine):
    """One group. A client that is fenced or unknown gives up its partitions and joins again."""

    @initialize()
    def start(self) -> None:
        self.now_ms = 0
        self.ids = 0
        self.log: list[ConsumerRecord] = []
        self.groups = self.new_groups()
        self.clients: dict[str, Client] = {}
        self.topics: dict[str, KnownTopic] = {}
        self.image = TopicsImage()
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}
        self.create_topic("orders-eu")

    def new_groups(self) -> ConsumerGroups:
        return ConsumerGroups(lambda _: SETTINGS, group_size_max=len(MEMBERS) - 1)

    def send(self, request: ConsumerHeartbeat, answered: Callable[..., None]) -> None:
        check_heartbeat(request, ASSIGNORS, own_id=True)
        before = self.known(request.member_id)
        result = self.groups.heartbeat(request, self.image, self.now_ms)
        self.log += result.records
        if not request.leaves:
            after = self.known(request.member_id)
            assert after is not None
            if before is not None and before.epoch >= 0 and request.member_epoch != 0:
                assert after.epoch >= before.epoch, "a member's epoch does not go back"
            if result.assignment is not None:
                assert result.assignment == plain(after.assigned)
        answered(result)

    def known(self, member: str) -> ConsumerMember | None:
        if not self.groups.exists("g"):
            return None
        members = self.groups.describe("g").members
        return next((m for m in members if m.member_id == member), None)

    def heartbeat_of(self, member: str, *, confirms: bool = True, lost: bool = False) -> None:
        """What the client sends next, and what it does with the answer, unless that is lost."""
        client = self.clients[member]
        full = client.epoch == 0 or client.must_say_all
        if confirms:
            client.owned = client.assigned
        owned = {} if client.epoch == 0 else {t: frozenset(p) for t, p in client.owned.items()}
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=member,
            member_epoch=client.epoch,
            instance_id=f"i-{member}" if client.static else None,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topics=client.wish.names if full else None,
            subscribed_regex=client.wish.regex if full else None,
            owned=owned if full or confirms else None,
        )

        def answered(result: object) -> None:
            if lost:
                client.must_say_all = True
                return
            client.epoch = result.member_epoch
            client.must_say_all = False
            if result.assignment is not None:
                client.assigned = {t: set(p) for t, p in result.assignment.items()}
                if not any(p - client.assigned.get(t, set()) for t, p in client.owned.items()):
                    client.owned = client.assigned

        try:
            self.send(request, answered)
        except (FencedMemberEpoch, UnknownMemberId):
            client.start_anew()
        except KafkaError:
            assert client.epoch == 0, "only a join is refused otherwise"
            known = self.known(member)
            if known is None:
                assert len(self.groups.describe("g").members) == len(MEMBERS) - 1
            else:
                assert client.static, "the instance id is still in use"

    @rule(member=st.sampled_from(MEMBERS), wish=SUBSCRIPTION, static=st.booleans())
    def join(self, member: str, wish: tuple[tuple[str, ...], str], static: bool) -> None:
        if member not in self.clients:
            self.clients[member] = Client(Wish(*wish), static)
        self.heartbeat_of(member)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), confirms=st.booleans(), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, confirms: bool, lost: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.clients)))
        self.heartbeat_of(member, confirms=confirms, lost=lost)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), wish=SUBSCRIPTION)
    def subscribe(self, data: st.DataObject, wish: tuple[tuple[str, ...], str]) -> None:
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        client.wish, client.must_say_all = Wish(*wish), True

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.clients)))
        client = self.clients[member]
        away = for_a_while and client.static
        known = self.known(member)
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=member,
            member_epoch=-2 if away else -1,
            instance_id=f"i-{member}" if client.static else None,
        )
        if known is not None and (known.instance_id is not None) == client.static:
            self.send(request, lambda result: None)
            assert self.known(member) is None or away
        client.start_anew()
        if not away:
            del self.clients[member]

    @rule(ms=st.sampled_from((300, 1_000, 3_000, 8_000)))
    def time_passes(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (due := self.groups.next_deadline_ms()) is not None and due <= end_ms:
            self.now_ms = due
            self.log += self.groups.tick(self.image, due)
        self.now_ms = end_ms

    @rule(has_offsets=st.booleans())
    def clean_up(self, has_offsets: bool) -> None:
        """A group with members or offsets stays."""
        stays = self.groups.exists("g") and (has_offsets or bool(self.groups.describe("g").members))
        self.log += self.groups.delete_unused(lambda _: has_offsets)
        assert self.groups.exists("g") == stays
        if not stays:
            self.epochs = (0, 0)

    @rule(name=st.sampled_from(NAMES))
    def create_topic(self, name: str) -> None:
        """Or add partitions to it."""
        self.ids += 1
        info = self.topics.get(name, KnownTopic(UUID(int=self.ids), 1))
        self.topics[name] = info._replace(partition_count=info.partition_count + 1)
        self.image = TopicsImage(dict(self.topics))

    @precondition(lambda self: len(self.topics) > 1)
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        del self.topics[data.draw(st.sampled_from(sorted(self.topics)))]
        self.image = TopicsImage(dict(self.topics))

    @rule()
    def restart(self) -> None:
        """A replay of the log gives the same groups; sessions begin anew."""
        again = self.new_groups()
        for record in self.log:
            again.table.replay(record)
        again.sessions_restarted(self.now_ms)
        assert again.group_ids() == self.groups.group_ids()
        rewritten = self.new_groups()
        for group_id in self.groups.group_ids():
            assert again.describe(group_id) == self.groups.describe(group_id)
            for record in self.groups.table.records(group_id):
                rewritten.table.replay(record)
            assert rewritten.describe(group_id) == self.groups.describe(group_id)
        self.groups = again

    @precondition(lambda self: self.clients)
    @rule()
    def come_to_rest(self) -> None:
        """When all clients go on, each partition soon has one owner, and nothing more happens."""
        for _ in range(12):
            self.time_passes(1_000)
            for member in sorted(self.clients):
                self.heartbeat_of(member)
        known = {m.member_id: m for m in self.groups.describe("g").members}
        away = [m for m in known.values() if m.member_id not in self.clients]
        assert not away, "sessions of members that say nothing have ended"
        written = len(self.log)
        for member in sorted(known):
            self.heartbeat_of(member)
        assert len(self.log) == written, "nothing is written at rest"
        assert self.groups.describe("g").state is ConsumerGroupState.STABLE
        wanted = {name for m in known for name in self.names(self.clients[m].wish)}
        every = {(self.topics[n].topic_id, p) for n in wanted for p in range(self.topics[n][1])}
        owned = {(t, p) for m in known for t, ps in self.clients[m].owned.items() for p in ps}
        assert owned == every
        for member, seen in known.items():
            assert plain(seen.assigned) == {
                t: tuple(sorted(p)) for t, p in sorted(self.clients[member].owned.items())
            }
        self.check_even({m: self.clients[m] for m in known}, len(every))

    def check_even(self, clients: dict[str, Client], partitions: int) -> None:
        if len({frozenset(self.names(c.wish)) for c in clients.values()}) == 1:
            loads = [sum(map(len, c.owned.values())) for c in clients.values()]
            assert max(loads) - min(loads) <= 1
            assert sum(loads) == partitions

    def names(self, wish: Wish) -> set[str]:
        if wish.regex == ".*":
            return set(self.topics)
        if wish.regex:
            return {name for name in self.topics if name.startswith("orders-")}
        return set(wish.names) & self.topics.keys()

    @invariant()
    def all_holds(self) -> None:
        """No two clients believe that they own one partition, unless one of them has been fenced
        and has not heard of it.
        """
        self.groups.check_invariants()
        if not self.groups.exists("g"):
            return
        group = self.groups.describe("g")
        assert self.epochs <= (group.epoch, group.assignment_epoch), "epochs do not go back"
        self.epochs = (group.epoch, group.assignment_epoch)
        owners: dict[tuple[UUID, int], str] = {}
        for member in group.members:
            client = self.clients.get(member.member_id)
            if client is None or client.epoch not in (member.epoch, member.previous_epoch):
                continue
            if member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
                assert not member.revoking
            for topic_id, partitions in client.owned.items():
                for partition in partitions:
                    key = (topic_id, partition)
                    assert owners.setdefault(key, member.member_id) == member.member_id
                    assert member.owns(*key), "a client owns no more than the coordinator knows"


ConsumerGroupsMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestConsumerGroups = ConsumerGroupsMachine.TestCase
TestConsumerGroups.pytestmark = [pytest.mark.timeout(120)]
