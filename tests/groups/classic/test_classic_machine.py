"""Random lives of a classic group: invariants after each step, a naive model of who was told what,
replay of the log.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.records import ClassicGroupRecord, ClassicRecord
from sharegroup.groups.classic.requests import (
    Effects,
    Join,
    Joined,
    LeavingMember,
    Now,
    Protocol,
    Refused,
    Settings,
    Sync,
    Synced,
)
from sharegroup.model.errors import FencedInstanceId, KafkaError, MemberIdRequired, NonEmptyGroup

GROUP = "g"
SETTINGS = Settings(size_max=4, initial_rebalance_delay_ms=500, quiet_members_min=3)
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
INSTANCES = (None, None, "i", "k")
SESSION_MS = 10_000
REBALANCE_MS = 20_000


@dataclass
class Client:
    """What one client knows. ``token`` is its request that waits."""

    instance_id: str | None
    protocols: tuple[str, ...]
    metadata: bytes = b""
    member_id: str = ""
    joined: Joined | None = None
    synced: bool = False
    token: int = 0


class ClassicGroupMachine(RuleBasedStateMachine):
    """One group. Records become durable one by one, later than they are written."""

    @initialize()
    def start(self) -> None:
        self.now_ms = 1_000
        self.groups = ClassicGroups(SETTINGS)
        self.clients: list[Client] = []
        self.tokens = 0
        self.ids = 0
        self.open: dict[int, Client] = {}
        """Clients by the token that waits."""
        self.log: list[ClassicRecord] = []
        self.written: list[ClassicRecord] = []
        """Not durable yet."""
        self.begun: dict[int, tuple[str, str | None]] = {}
        """(leader, protocol) of each generation that members were told of."""
        self.decided: dict[int, dict[str, bytes]] = {}
        """The durable assignments of each generation."""
        self.handed_out = 0
        """The last generation with an assignment that a member has."""

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + 7)

    def token(self, client: Client) -> int:
        self.tokens += 1
        self.open[self.tokens] = client
        client.token = self.tokens
        return self.tokens

    def done(self, effects: Effects) -> None:
        self.written += effects.records
        told: dict[int, set[str]] = defaultdict(set)
        for token, result in effects.answers:
            client = self.open.pop(token)  # KeyError: it is answered twice
            if isinstance(result, Joined):
                self.check_joined(result, told)
            elif isinstance(result, Synced):
                self.check_synced(client, result)
            if client.token == token:
                self.hear(client, result)

    def hear(self, client: Client, result: Joined | Synced | Refused) -> None:
        """What a client does with an answer."""
        client.token = 0
        if isinstance(result, Joined):
            client.member_id = result.member_id
            client.joined = result
            client.synced = False
        elif isinstance(result, Synced):
            client.synced = True
        elif isinstance(result, Refused):
            client.joined = None
            if isinstance(result.error, FencedInstanceId) and client in self.clients:
                self.clients.remove(client)
            client.member_id = (
                result.member_id if isinstance(result.error, MemberIdRequired) else ""
            )

    def check_joined(self, joined: Joined, told: dict[int, set[str]]) -> None:
        found = self.begun.setdefault(joined.generation, (joined.leader, joined.protocol_name))
        if not joined.skip_assignment:
            assert found[1] == joined.protocol_name
        assert joined.member_id not in told[joined.generation]
        told[joined.generation].add(joined.member_id)
        ids = [member.member_id for member in joined.members]
        assert bool(ids) == (joined.leader == joined.member_id)
        if ids:
            assert joined.member_id in ids
            assert len(set(ids)) == len(ids) <= SETTINGS.size_max

    def check_synced(self, client: Client, result: Synced) -> None:
        joined = client.joined
        assert joined is not None
        assert result.assignment == self.decided[joined.generation].get(joined.member_id, b"")
        assert joined.generation >= self.handed_out
        self.handed_out = joined.generation

    # Clients ---------------------------------------------------------------------------------

    def send_join(self, client: Client, *, id_required: bool = True) -> None:
        self.ids += 1
        request = Join(
            group_id=GROUP,
            member_id=client.member_id,
            new_member_id=f"m{self.ids}",
            protocol_type="consumer",
            protocols=[Protocol(name, client.metadata) for name in client.protocols],
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            instance_id=client.instance_id,
            id_required=id_required,
        )
        self.done(self.groups.join(request, self.token(client), self.now))

    @precondition(lambda self: len(self.clients) < 6)
    @rule(instance=st.sampled_from(INSTANCES), protocols=PROTOCOLS, old=st.booleans())
    def a_client_comes(self, instance: str | None, protocols: tuple[str, ...], old: bool) -> None:
        client = Client(instance, protocols)
        self.clients.append(client)
        self.send_join(client, id_required=not old)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 5), metadata=st.sampled_from([b"", b"x"]), retry=st.booleans())
    def join(self, which: int, metadata: bytes, retry: bool) -> None:
        client = self.clients[which % len(self.clients)]
        if client.token and not retry:
            return
        client.metadata = metadata
        self.send_join(client)

    def sync(self, client: Client) -> None:
        joined = client.joined
        assert joined is not None
        given: list[tuple[str, bytes]] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            self.ids += 1
            given = [(m.member_id, b"%d" % self.ids) for m in joined.members]
        request = Sync(
            group_id=GROUP,
            member_id=joined.member_id,
            generation=joined.generation,
            instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=given,
        )
        self.done(self.groups.sync(request, self.token(client), self.now))

    def heartbeat(self, client: Client) -> None:
        assert client.joined is not None
        generation = client.joined.generation
        try:
            must_join = self.groups.heartbeat(
                GROUP, client.member_id, client.instance_id, generation, self.now
            )
        except KafkaError:
            client.joined = None
        else:
            state = self.groups.describe(GROUP).state
            assert must_join == (state == "PreparingRebalance")
            if must_join:
                self.send_join(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.sets(st.integers(0, 5)))
    def clients_do_what_is_next(self, which: set[int]) -> None:
        """Most of them."""
        for at, client in enumerate(list(self.clients)):
            if at in which or client.token:
                continue
            if client.joined is None:
                self.send_join(client)
            elif client.synced:
                self.heartbeat(client)
            else:
                self.sync(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 5), silent=st.booleans())
    def a_client_goes(self, which: int, silent: bool) -> None:
        client = self.clients.pop(which % len(self.clients))
        if silent or not self.groups.exists(GROUP):
            return
        _, effects = self.groups.leave(
            GROUP, [LeavingMember(client.member_id, client.instance_id)], self.now
        )
        self.done(effects)

    @precondition(lambda self: self.clients)
    @rule(steps=st.integers(1, 8))
    def a_quiet_while(self, steps: int) -> None:
        for _ in range(steps):
            self.clients_do_what_is_next(set())
            self.time_passes(600)
            while self.written:
                self.a_record_becomes_durable()

    # The world -------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([100, 600, 600, 6_000, 21_000]))
    def time_passes(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (deadline_ms := self.groups.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.done(self.groups.tick(self.now))
        self.now_ms = end_ms

    @precondition(lambda self: self.written)
    @rule()
    def a_record_becomes_durable(self) -> None:
        record = self.written.pop(0)
        self.log.append(record)
        if isinstance(record, ClassicGroupRecord):
            self.decided[record.generation] = {m.member_id: m.assignment for m in record.members}
        else:
            self.begun.clear()
            self.handed_out = 0
        self.done(self.groups.durable([record], self.now))

    @rule()
    def the_group_is_rewritten(self) -> None:
        record = self.groups.record(GROUP)
        if record is not None:
            self.written.append(record)

    @rule(really=st.integers(0, 4))
    def the_group_is_deleted(self, really: int) -> None:
        if really or not self.groups.exists(GROUP):
            return
        state = self.groups.describe(GROUP).state
        try:
            self.done(self.groups.delete(GROUP))
        except NonEmptyGroup:
            assert state != "Empty"
        else:
            assert state == "Empty"
            while self.written:  # so that generations begin anew
                self.a_record_becomes_durable()

    @rule(really=st.integers(0, 4))
    def the_broker_crashes(self, really: int) -> None:
        if really:
            return
        self.written.clear()
        self.open.clear()
        for client in self.clients:
            client.token = 0
        self.groups = ClassicGroups(SETTINGS)
        for record in self.log:
            self.groups.replay(record)
        self.done(self.groups.replayed(self.now))
        if self.log and isinstance(last := self.log[-1], ClassicGroupRecord):
            found = self.groups.describe(GROUP)
            assert found.generation == last.generation >= self.handed_out
            assert {m.member_id: m.assignment for m in found.members} == {
                m.member_id: m.assignment for m in last.members
            }
        else:
            assert not self.groups.exists(GROUP)
        # A generation that nobody was assigned anything in may be used again.
        self.begun = {g: told for g, told in self.begun.items() if g <= self.handed_out}

    @invariant()
    def the_group_is_consistent(self) -> None:
        self.groups.check_invariants()

    def teardown(self) -> None:
        """Nobody waits for ever."""
        for _ in range(20):
            while self.written:
                self.a_record_becomes_durable()
            self.time_passes(400_000)
            self.groups.check_invariants()
        assert not self.open


TestClassicGroup = ClassicGroupMachine.TestCase
TestClassicGroup.settings = settings(deadline=None, stateful_step_count=40)
