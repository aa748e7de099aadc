"""Random lives of share groups: invariants after each step, a naive model of who is in, and replay
of the log.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.group import Member
from sharegroup.groups.heartbeat import ShareHeartbeat
from sharegroup.groups.records import CoordinatorRecord
from sharegroup.groups.share import ShareGroups
from sharegroup.groups.topics import TopicInfo, TopicsImage

NAMES = ("flights", "delays", "planes")
MEMBERS = tuple("abcdef")
SUBSCRIPTION = st.sets(st.sampled_from(NAMES), min_size=1).map(tuple)
SETTINGS = GroupSettings(session_timeout_ms=10_000, assignment_interval_ms=1_000)


class ShareGroupsMachine(RuleBasedStateMachine):
    """One group; members that always know the epoch they were told, and sometimes lose an
    answer.
    """

    @initialize()
    def start(self) -> None:
        self.now_ms = 0
        self.ids = 0
        self.topics: dict[str, TopicInfo] = {}
        self.log: list[CoordinatorRecord] = []
        self.groups = ShareGroups(lambda _: SETTINGS, group_size_max=len(MEMBERS))
        self.told: dict[str, int] = {}
        self.deadlines: dict[str, int] = {}
        self.wishes: dict[str, frozenset[str]] = {}
        self.create_topic("flights")

    def send(self, member: str, epoch: int, wish: tuple[str, ...] | None, *, lost: bool) -> None:
        request = ShareHeartbeat(
            group_id="g", member_id=member, member_epoch=epoch, subscribed_topics=wish
        )
        image = TopicsImage(dict(self.topics))
        self.log += self.groups.initialized("g", self.groups.uninitialized(request, image))
        result = self.groups.heartbeat(request, image, self.now_ms)
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
        if epoch == 0:
            self.check_shares()

    def check_shares(self) -> None:
        """A join computes at once: all partitions of all existing subscribed topics have a target
        holder.
        """
        targets = self.groups._groups["g"].targets
        held = Counter((t, p) for a in targets.values() for t, ps in a.items() for p in ps)
        wanted = {name for wish in self.wishes.values() for name in wish} & self.topics.keys()
        for name in wanted:
            topic_id, count = self.topics[name]
            assert all(held[topic_id, partition] for partition in range(count))

    def member(self, member: str) -> Member:
        return next(m for m in self.groups.describe("g").members if m.member_id == member)

    def forget(self, member: str) -> None:
        for known in (self.told, self.deadlines, self.wishes):
            known.pop(member, None)

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
        self.log += self.groups.tick(self.now_ms)
        for member, deadline_ms in list(self.deadlines.items()):
            if deadline_ms <= self.now_ms:
                self.forget(member)

    @rule(name=st.sampled_from(NAMES))
    def create_topic(self, name: str) -> None:
        self.ids += 1
        self.topics.setdefault(name, TopicInfo(UUID(int=self.ids), 1))

    @rule(name=st.sampled_from(NAMES))
    def grow_topic(self, name: str) -> None:
        if name in self.topics:
            topic_id, count = self.topics[name]
            self.topics[name] = TopicInfo(topic_id, min(count + 2, 9))

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        if name in self.topics:
            self.log += self.groups.topics_deleted({self.topics.pop(name).topic_id})

    @rule()
    def delete_group(self) -> None:
        if self.groups.list_groups() and not self.told:
            self.log += self.groups.delete("g")

    @rule()
    def restart(self) -> None:
        restored = self.rebuilt()
        restored.sessions_restarted(self.now_ms)
        self.groups = restored
        deadline_ms = self.now_ms + SETTINGS.session_timeout_ms
        self.deadlines = dict.fromkeys(self.deadlines, deadline_ms)

    def rebuilt(self) -> ShareGroups:
        restored = ShareGroups(lambda _: SETTINGS, group_size_max=len(MEMBERS))
        for record in self.log:
            restored.replay(record)
        return restored

    @invariant()
    def state_is_the_fold_of_the_log(self) -> None:
        if not hasattr(self, "groups"):
            return
        self.groups.check_invariants()
        restored = self.rebuilt()
        assert restored.list_groups() == self.groups.list_groups()
        for name, _ in self.groups.list_groups():
            assert vars(restored._groups[name]) == vars(self.groups._groups[name])

    @invariant()
    def members_are_those_of_the_model(self) -> None:
        if not hasattr(self, "groups"):
            return
        listed = self.groups.list_groups()
        members = self.groups.describe("g").members if listed else ()
        assert {m.member_id: frozenset(m.subscribed_topics) for m in members} == self.wishes
        assert self.groups.next_deadline_ms() == min(self.deadlines.values(), default=None)


TestShareGroups = ShareGroupsMachine.TestCase
TestShareGroups.settings = settings(deadline=None, stateful_step_count=30)
