"""Random lives of share groups: invariants after each step, a naive model of who is in, and replay
of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.share.group import ShareGroupMember
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.groups.share.heartbeat import ShareHeartbeat, ToInitialize
from sharegroup.groups.share.records import ShareRecord, TopicPartitions
from sharegroup.groups.topics import KnownTopic, TopicsImage

NAMES = ("flights", "delays", "planes")
MEMBERS = tuple("abcdef")
SUBSCRIPTION = st.sets(st.sampled_from(NAMES), min_size=1).map(tuple)
SETTINGS = GroupSettings(session_timeout_ms=10_000, assignment_interval_ms=1_000)


def remembered(groups: ShareGroups, group_id: str) -> object:
    """All of a group that has to outlive a restart."""
    group = groups.table.existing(group_id)
    return (
        group.describe(),
        group.metadata_hash,
        group.targets,
        group.state_partitions(),
        sorted(group.subscribed_topics()),
    )


class ShareGroupsMachine(RuleBasedStateMachine):
    """One group; members that always know the epoch they were told, and sometimes lose an
    answer.
    """

    @initialize()
    def start(self) -> None:
        self.now_ms = 0
        self.ids = 0
        self.topics: dict[str, KnownTopic] = {}
        self.log: list[ShareRecord] = []
        self.groups = ShareGroups(lambda _: SETTINGS, group_size_max=len(MEMBERS))
        self.told: dict[str, int] = {}
        self.deadlines: dict[str, int] = {}
        self.wishes: dict[str, frozenset[str]] = {}
        self.states: dict[UUID, set[int]] = {}
        self.persister_fails = False
        self.first = True
        self.image = TopicsImage()
        self.create_topic("flights")

    def send(self, member: str, epoch: int, wish: tuple[str, ...] | None, *, lost: bool) -> None:
        request = ShareHeartbeat(
            group_id="g", member_id=member, member_epoch=epoch, subscribed_topics=wish
        )
        missing = self.groups.uninitialized(request, self.image)
        self.check_missing(missing)
        self.log += self.groups.initializing("g", missing)
        if self.persister_fails:
            self.log += self.groups.not_initialized("g", missing)
        else:
            self.log += self.groups.initialized("g", missing)
            for item in missing:
                known = self.states.setdefault(item.topic.topic_id, set())
                known.update(item.topic.partitions)
        result = self.groups.heartbeat(request, self.image, self.now_ms)
        self.log += result.records
        if epoch == -1:
            self.forget(member)
            return
        self.deadlines[member] = self.now_ms + SETTINGS.session_timeout_ms
        if wish is not None:
            self.wishes[member] = frozenset(wish)
        if not lost:
            self.told[member] = result.member_epoch
        if result.assignment is not None:
            assert result.assignment == self.member(member).assignment
        interval_ms = SETTINGS.heartbeat_interval_ms
        assert (result.heartbeat_interval_ms < interval_ms) == self.groups.is_pending("g")
        if len(self.wishes) == 1 and epoch == 0 and self.first:
            assert not self.groups.is_pending("g"), "the first member is assigned at once"
        self.first = False

    def check_missing(self, missing: Sequence[ToInitialize]) -> None:
        """Nothing is initialised twice, and added partitions of a known topic begin at 0."""
        for topic, start_offset in missing:
            known = self.states.get(topic.topic_id, set())
            assert not known & set(topic.partitions)
            assert start_offset == (0 if known else -1)

    def held(self) -> Counter[tuple[UUID, int]]:
        """How many members have been told of each partition."""
        return Counter(
            (topic_id, partition)
            for member in self.groups.describe("g").members
            for topic_id, partitions in member.assignment.items()
            for partition in partitions
        )

    @precondition(lambda self: self.told and not self.persister_fails)
    @rule()
    def come_to_rest(self) -> None:
        """After the interval and a heartbeat of each member, twice, all is assigned and evenly."""
        for _ in range(2):
            self.time_passes(SETTINGS.assignment_interval_ms)
            for member in sorted(self.told):
                known = self.member(member)
                self.send(member, known.epoch, None, lost=False)
        if not self.told:
            return
        written = len(self.log)
        for member in sorted(self.told):
            self.send(member, self.told[member], None, lost=False)
        assert len(self.log) == written, "nothing is written at rest"
        wanted = {name for wish in self.wishes.values() for name in wish} & self.topics.keys()
        every = {(self.topics[n][0], p) for n in wanted for p in range(self.topics[n][1])}
        held = self.held()
        assert set(held) == every
        if every and len(set(self.wishes.values())) == 1:
            assert set(held.values()) == {-(-len(self.told) // len(every))}

    def member(self, member: str) -> ShareGroupMember:
        return next(m for m in self.groups.describe("g").members if m.member_id == member)

    def forget(self, member: str) -> None:
        for known in (self.told, self.deadlines, self.wishes):
            known.pop(member, None)
        self.first = not self.wishes

    @rule(member=st.sampled_from(MEMBERS), wish=SUBSCRIPTION)
    def join(self, member: str, wish: tuple[str, ...]) -> None:
        self.send(member, 0, wish, lost=False)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), wish=st.none() | SUBSCRIPTION, lost=st.booleans())
    def heartbeat(self, data: st.DataObject, wish: tuple[str, ...] | None, lost: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.told)))
        known = self.member(member)
        if self.told[member] in (known.epoch, known.previous_epoch):
            self.send(member, self.told[member], wish, lost=lost)
        else:
            self.send(member, 0, wish or NAMES, lost=False)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.send(data.draw(st.sampled_from(sorted(self.told))), -1, None, lost=False)

    @rule(step_ms=st.sampled_from([1, 500, 1_000, 4_000, 9_000]))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self.log += self.groups.tick(self.image, self.now_ms)
        for member, deadline_ms in list(self.deadlines.items()):
            if deadline_ms <= self.now_ms:
                self.forget(member)

    @rule(name=st.sampled_from(NAMES))
    def create_topic(self, name: str) -> None:
        self.ids += 1
        self.topics.setdefault(name, KnownTopic(UUID(int=self.ids), 1))
        self.image = TopicsImage(dict(self.topics))

    @rule(name=st.sampled_from(NAMES))
    def grow_topic(self, name: str) -> None:
        if name in self.topics:
            topic_id, count = self.topics[name]
            self.topics[name] = KnownTopic(topic_id, min(count + 2, 9))
            self.image = TopicsImage(dict(self.topics))

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        if name in self.topics:
            topic_id = self.topics.pop(name).topic_id
            self.image = TopicsImage(dict(self.topics))
            self.log += self.groups.topics_deleted({topic_id})
            self.states.pop(topic_id, None)

    @rule(name=st.sampled_from(NAMES))
    def delete_and_create_topic(self, name: str) -> None:
        self.delete_topic(name)
        self.create_topic(name)

    @rule(fails=st.booleans())
    def persister(self, fails: bool) -> None:
        self.persister_fails = fails

    @rule(second_half=st.booleans())
    def delete_group(self, second_half: bool) -> None:
        if self.groups.list_groups() and not self.told:
            begun = self.groups.begin_deletion("g", self.image)
            assert {t.topic_id: set(t.partitions) for t in begun.topics} == self.states
            self.log += begun.records
            if second_half:
                self.log += self.groups.delete("g")
                self.states = {}
            else:
                gone = {topic.topic_id for topic in begun.topics}
                self.log += self.groups.offsets_deleted("g", gone)
                self.states = {}

    @rule(names=st.sets(st.sampled_from(NAMES)))
    def delete_offsets(self, names: set[str]) -> None:
        if self.groups.list_groups() and not self.told:
            begun = self.groups.begin_offsets_deletion("g", sorted(names), self.image)
            gone = {topic.topic_id for topic in begun.topics}
            held = {n for n in names & self.topics.keys() if self.topics[n][0] in self.states}
            assert gone == {self.topics[name][0] for name in held}
            assert begun.refused.keys() == names - held
            self.log += begun.records
            self.log += self.groups.offsets_deleted("g", gone)
            self.states = {t: ps for t, ps in self.states.items() if t not in gone}

    @precondition(lambda self: self.topics and not self.told)
    @rule(data=st.data())
    def alter_offsets(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        topic_id, count = self.topics[name]
        partition = data.draw(st.integers(0, count - 1))
        item = (ToInitialize(TopicPartitions(topic_id, name, (partition,)), 3),)
        self.groups.check_empty("g")
        self.log += self.groups.initializing("g", item)
        self.log += self.groups.initialized("g", item)
        self.states.setdefault(topic_id, set()).add(partition)

    @rule()
    def write_anew(self) -> None:
        """A round of the group log: what was before it is deleted."""
        self.log = [r for g in self.groups.group_ids() for r in self.groups.table.records(g)]

    @rule()
    def restart(self) -> None:
        restored = self.rebuilt()
        restored.sessions_restarted(self.now_ms)
        self.groups = restored
        self.first = not self.wishes
        deadline_ms = self.now_ms + SETTINGS.session_timeout_ms
        self.deadlines = dict.fromkeys(self.deadlines, deadline_ms)

    def rebuilt(self) -> ShareGroups:
        restored = ShareGroups(lambda _: SETTINGS, group_size_max=len(MEMBERS))
        for record in self.log:
            restored.table.replay(record)
        return restored

    @invariant()
    def state_is_the_fold_of_the_log(self) -> None:
        if not hasattr(self, "groups"):
            return
        self.groups.check_invariants()
        restored = self.rebuilt()
        assert restored.list_groups() == self.groups.list_groups()
        for name, _ in self.groups.list_groups():
            assert remembered(restored, name) == remembered(self.groups, name)

    @invariant()
    def members_are_those_of_the_model(self) -> None:
        if not hasattr(self, "groups"):
            return
        listed = self.groups.list_groups()
        members = self.groups.describe("g").members if listed else ()
        assert {m.member_id: frozenset(m.subscribed_topics) for m in members} == self.wishes
        assert self.groups.next_deadline_ms() == min(self.deadlines.values(), default=None)

    @invariant()
    def state_partitions_are_those_of_the_model(self) -> None:
        if hasattr(self, "groups"):
            known = {t.topic_id: set(t.partitions) for t in self.groups.state_partitions("g")}
            assert known == self.states
            assert self.groups.topic_ids() == self.states.keys()


TestShareGroups = ShareGroupsMachine.TestCase
TestShareGroups.settings = settings(deadline=None, stateful_step_count=30)
