"""Random lives of a group whose members come with either protocol, beside a naive model: what each
client believes it owns. No partition has two owners, and in the end each has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.groups.classic.embedded import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from sharegroup.groups.classic.group import Group as ClassicGroup
from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.records import (
    ClassicGroupRecord,
    ClassicRecord,
    ClassicTombstone,
)
from sharegroup.groups.classic.requests import (
    ClassicAnswer,
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
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat
from sharegroup.groups.consumer.migration import MigrationPolicy
from sharegroup.groups.consumer.records import WrittenRecord
from sharegroup.groups.topics import KnownTopic, TopicsImage
from sharegroup.model.errors import KafkaError
from tests.broker.migration_wire import subscription

NAMES = ("a", "b", "static")
PARTITIONS = 5
TOPIC = UUID(int=1)
TOPICS = TopicsImage({"t": KnownTopic(TOPIC, PARTITIONS)})
SETTINGS = GroupSettings(consumer_session_timeout_ms=10_000, consumer_assignment_interval_ms=1_000)
SESSION_MS, REBALANCE_MS = 10_000, 4_000


class Server:
    """Both types of groups over one log, without files."""

    def __init__(self, log: list[WrittenRecord]) -> None:
        self.log = log
        self.now_ms = 0
        self.answers: dict[int, ClassicAnswer] = {}
        self.classic = ClassicGroups(Settings(100, 500))
        self.consumer = ConsumerGroups(
            lambda _: SETTINGS, classic=self, migration_policy=MigrationPolicy.BIDIRECTIONAL
        )

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def group(self, group_id: str) -> ClassicGroup | None:
        return self.classic.group(group_id)

    def release(self, group_id: str) -> Sequence[ClassicRecord]:
        event("upgrade")
        return self.done(self.classic.release(group_id))

    def keep(self, group_id: str) -> None:
        event("kept")
        self.done(self.classic.keep(group_id, self.now))

    def adopt(self, group: ClassicGroup, *, rebalance: bool) -> Sequence[ClassicRecord]:
        event("downgrade")
        return self.done(self.classic.adopt(group, self.now, rebalance=rebalance))

    def done(self, effects: Effects) -> Sequence[ClassicRecord]:
        for answer in effects.answers:
            assert answer.token not in self.answers, "one answer for each request"
            self.answers[answer.token] = answer
        return effects.records

    def write(self, effects: Effects) -> None:
        """Records of classic groups are durable at once."""
        records = self.done(effects)
        self.log += records
        if records:
            self.write(self.classic.durable(records, self.now))

    def tick(self, until_ms: int) -> None:
        while True:
            due = [d() for d in (self.classic.next_deadline_ms, self.consumer.next_deadline_ms)]
            first = min((at for at in due if at is not None), default=until_ms + 1)
            if first > until_ms:
                break
            self.now_ms = max(self.now_ms, first)
            self.write(self.classic.tick(self.now))
            self.log += self.consumer.tick(TOPICS, self.now_ms)
        self.now_ms = until_ms

    def replay(self) -> Server:
        fresh = Server(self.log)
        fresh.now_ms = self.now_ms
        for record in self.log:
            if isinstance(record, ClassicGroupRecord | ClassicTombstone):
                fresh.classic.replay(record)
            else:
                fresh.consumer.table.replay(record)
        fresh.write(fresh.classic.replayed(fresh.now))
        fresh.consumer.sessions_restarted(fresh.now_ms)
        return fresh


class Client:
    """A member as it sees itself; ``heard_ms`` is when the server has last answered it well."""

    def __init__(self, name: str, static: bool) -> None:
        self.name = name
        self.instance_id = f"i-{name}" if static else None
        self.heard_ms = 0
        self.start_anew()

    def start_anew(self) -> None:
        self.member_id = ""
        self.epoch = -1
        self.owned: set[int] = set()
        self.assigned: set[int] = set()
        self.token: int | None = None
        self.syncs = False
        self.joined: Joined | None = None


class Migration(RuleBasedStateMachine):
    """One group. Classic clients are cooperative: they keep their partitions while they join."""

    @initialize()
    def start(self) -> None:
        self.server = Server([])
        self.clients: dict[tuple[str, bool], Client] = {}
        self.ids = 0
        for _ in range(8):
            self.server.tick(self.server.now_ms + 500)
            self.old_beat("a")
            self.old_beat("b")

    def client(self, name: str, new: bool) -> Client:
        return self.clients.setdefault((name, new), Client(name, name == "static"))

    # --- the consumer protocol --------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def new_beat(self, name: str) -> None:
        client = self.client(name, True)
        joins = client.epoch <= 0
        if joins:
            client.start_anew()
            self.ids += 1
            client.member_id = f"new-{name}-{self.ids}"
        client.owned &= client.assigned
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=client.member_id,
            member_epoch=0 if joins else client.epoch,
            instance_id=client.instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topics=("t",),
            owned={} if joins else {TOPIC: frozenset(client.owned)},
        )
        try:
            result = self.server.consumer.heartbeat(request, TOPICS, self.server.now_ms)
        except KafkaError:
            client.start_anew()
            return
        self.server.log += result.records
        client.heard_ms = self.server.now_ms
        client.epoch = result.member_epoch
        if result.assignment is not None:
            client.assigned = set(result.assignment.get(TOPIC, ()))
            if client.owned <= client.assigned:
                client.owned = set(client.assigned)

    @rule(name=st.sampled_from(NAMES), away=st.booleans())
    def new_leave(self, name: str, away: bool) -> None:
        client = self.clients.get((name, True))
        if client is None or client.epoch <= 0:
            return
        epoch = -2 if away and client.instance_id else -1
        request = ConsumerHeartbeat(
            group_id="g",
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance_id,
        )
        try:
            result = self.server.consumer.heartbeat(request, TOPICS, self.server.now_ms)
            self.server.log += result.records
        except KafkaError:
            pass  # it was removed before
        client.start_anew()

    # --- the classic protocol ---------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def old_beat(self, name: str) -> None:
        """What a classic client does next."""
        client = self.client(name, False)
        self.take_answer(client)
        if client.token is not None:
            return
        if client.joined is None:
            self.join(client)
        elif client.syncs:
            self.sync(client)
        else:
            self.heartbeat(client)
        self.take_answer(client)

    def consumer_group(self) -> bool:
        return self.server.consumer.has_members("g")

    def join(self, client: Client) -> None:
        self.ids += 1
        request = Join(
            group_id="g",
            member_id=client.member_id,
            new_member_id=f"old-{client.name}-{self.ids}",
            protocol_type="consumer",
            protocols=[
                Protocol("coop", subscription(("t",), {"t": sorted(client.owned)})),
                Protocol("range", subscription(("t",), {"t": sorted(client.owned)})),
            ],
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            instance_id=client.instance_id,
            id_required=False,
        )
        if self.consumer_group():
            self.apart(
                client,
                lambda: self.server.consumer.classic_members.join(
                    request, TOPICS, self.server.now_ms
                ),
            )
            return
        if self.server.consumer.exists("g"):
            self.server.log += self.server.consumer.delete("g")
        client.token = self.ids
        self.server.write(self.server.classic.join(request, self.ids, self.server.now))

    def sync(self, client: Client) -> None:
        assert client.joined is not None
        self.ids += 1
        members = [one.member_id for one in client.joined.members]
        request = Sync(
            group_id="g",
            member_id=client.member_id,
            generation=client.epoch,
            instance_id=client.instance_id,
            assignments=self.led(client.joined),
        )
        if self.consumer_group():
            self.apart(
                client,
                lambda: (
                    self.server.consumer.classic_members.sync(request, TOPICS, self.server.now_ms),
                    (),
                ),
            )
            return
        assert members or client.joined.leader != client.member_id
        client.token = self.ids
        self.server.write(self.server.classic.sync(request, self.ids, self.server.now))

    def led(self, joined: Joined) -> list[tuple[str, bytes]]:
        """Cooperative: a partition that somebody owns stays there or goes to nobody yet."""
        members = [one.member_id for one in joined.members]
        owners = {
            partition: one.member_id
            for one in joined.members
            for partition in owned_in(one.metadata)
        }
        given: dict[str, list[int]] = {member: [] for member in members}
        for partition in range(PARTITIONS if members else 0):
            wanted = members[partition % len(members)]
            if owners.get(partition, wanted) == wanted:
                given[wanted].append(partition)
        return [(member, encode_assignment({"t": held}, b"\0\1")) for member, held in given.items()]

    def heartbeat(self, client: Client) -> None:
        ids = ("g", client.member_id, client.instance_id, client.epoch)
        try:
            if self.consumer_group():
                rejoin, records = self.server.consumer.classic_members.heartbeat(
                    *ids, TOPICS, self.server.now_ms
                )
                self.server.log += records
            else:
                rejoin = self.server.classic.heartbeat(*ids, self.server.now)
        except KafkaError:
            client.start_anew()
            return
        client.heard_ms = self.server.now_ms
        if rejoin:
            client.joined = None

    def apart(
        self, client: Client, ask: Callable[[], tuple[object, Sequence[WrittenRecord]]]
    ) -> None:
        """A request that a consumer group answers at once."""
        self.ids += 1
        client.token = self.ids
        try:
            answer, records = ask()
        except KafkaError as error:
            answer, records = Refused(error), ()
        self.server.log += records
        assert isinstance(answer, Joined | Synced | Refused)
        self.server.answers[self.ids] = ClassicAnswer(self.ids, answer)

    def take_answer(self, client: Client) -> None:
        if client.token is None or client.token not in self.server.answers:
            return
        answer = self.server.answers.pop(client.token).result
        client.token = None
        if isinstance(answer, Refused):
            if answer.error.name == "REBALANCE_IN_PROGRESS":
                client.joined = None
            else:
                client.start_anew()
            return
        client.heard_ms = self.server.now_ms
        if isinstance(answer, Joined):
            client.member_id, client.epoch = answer.member_id, answer.generation
            client.joined, client.syncs = answer, True
        else:
            held = decode_assignment(answer.assignment).partitions.get("t", ())
            given_back = client.owned - set(held)
            client.owned, client.syncs = set(held), False
            if given_back:
                client.joined = None  # it joins again to tell

    @rule(name=st.sampled_from(NAMES))
    def old_leave(self, name: str) -> None:
        client = self.clients.get((name, False))
        if client is None or client.token is not None or not client.member_id:
            return
        leaving = [LeavingMember(client.member_id, client.instance_id)]
        if self.consumer_group():
            _, records = self.server.consumer.classic_members.leave("g", leaving, TOPICS)
            self.server.log += records
        elif self.server.classic.exists("g"):
            self.server.write(self.server.classic.leave("g", leaving, self.server.now)[1])
        client.start_anew()

    # --- time and crashes -------------------------------------------------------------------------

    @rule(ms=st.sampled_from((100, 600, 1_000, 3_000)))
    def time_passes(self, ms: int) -> None:
        self.server.tick(self.server.now_ms + ms)

    @rule()
    def restart(self) -> None:
        """The log rebuilds the consumer group. Who waits in a classic group joins anew."""
        self.server = self.server.replay()
        for client in self.clients.values():
            if client.token is not None:
                client.token, client.joined = None, None

    @precondition(lambda self: self.clients)
    @rule()
    def settles(self) -> None:
        """When all heartbeat for a while, every partition has one owner."""
        shared_id = {("static", True), ("static", False)} <= self.clients.keys()
        for _ in range(60):
            self.server.tick(self.server.now_ms + 500)
            for name, new in list(self.clients):
                (self.new_beat if new else self.old_beat)(name)
            self.all_holds()
            here = [c for c in self.clients.values() if c.epoch > 0]
            held = sorted(p for client in here for p in client.owned)
            if held == list(range(PARTITIONS)):
                return
        assert shared_id, (held, [vars(client) for client in here])  # they fence each other

    @invariant()
    def all_holds(self) -> None:
        """No two clients believe that they own one partition, unless one was removed and has not
        heard of it."""
        self.server.consumer.check_invariants()
        self.server.classic.check_invariants()
        if not self.consumer_group():
            return
        owners: dict[int, str] = {}
        members = {m.member_id: m for m in self.server.consumer.describe("g").members}
        for client in self.clients.values():
            member = members.get(client.member_id)
            if member is None:
                continue
            for partition in client.owned:
                first = owners.setdefault(partition, client.member_id)
                assert first == client.member_id, f"{first} and {client.member_id}: {partition}"


def owned_in(metadata: bytes) -> Sequence[int]:
    return decode_subscription(metadata).owned.get("t", ())


Migration.TestCase.settings = settings(max_examples=30, stateful_step_count=30)
TestMigration = Migration.TestCase
TestMigration.pytestmark = [pytest.mark.timeout(180)]
