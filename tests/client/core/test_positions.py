"""Positions beside a naive model: an old answer never moves a position that has jumped since."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.positions import EARLIEST, LATEST, Position, Positions, PositionStep
from sharegroup.model.ids import TopicPartition

WHERES = [TopicPartition("t", number) for number in range(3)]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "add",
                "remove",
                "seek",
                "end",
                "ask",
                "answer",
                "nothing",
                "fetch",
                "take",
                "range",
                "topic",
            ]
        ),
        st.sampled_from(WHERES),
        st.integers(0, 9),
    ),
    max_size=60,
)


class Model:
    """What the application last asked for decides; questions carry the count of its changes."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int | None] = {}
        self.changes: dict[TopicPartition, int] = {}
        self.topics: dict[TopicPartition, UUID] = {}
        self.left: dict[TopicPartition, UUID] = {}
        self.former: set[UUID] = set()

    def jump(self, where: TopicPartition, offset: int | None) -> None:
        self.positions[where] = offset
        self.changes[where] = self.changes.get(where, 0) + 1


class World:
    def __init__(self) -> None:
        self.real = Positions(EARLIEST)
        self.model = Model()
        self.asked: dict[TopicPartition, tuple[int, int]] = {}
        self.fetched: dict[TopicPartition, tuple[int, int]] = {}

    def do(self, what: str, where: TopicPartition, number: int) -> None:
        real, model = self.real, self.model
        if what == "add" and where not in real:
            real.add([where], from_group=bool(number % 2))
            model.jump(where, None)
            before = model.topics.pop(where, None)
            if before is not None:
                model.left[where] = before
        elif what == "answer" and where in self.asked:
            version, changes = self.asked.pop(where)
            real.found(where, version, Position(number))
            if where in model.positions and changes == model.changes[where]:
                model.jump(where, number)
        elif what == "take" and where in self.fetched:
            version, changes = self.fetched.pop(where)
            real.advance(where, version, Position(number))
            if where in model.positions and changes == model.changes[where]:
                model.positions[where] = number
        elif what == "topic" and where in real:
            self._see_topic(where, UUID(int=1 + number % 4))
        elif where in real:
            self._move(what, where, number)
        self.check()

    def _move(self, what: str, where: TopicPartition, number: int) -> None:
        real, model = self.real, self.model
        if what == "remove":
            real.remove([where])
            del model.positions[where]
        elif what == "seek":
            real.seek(where, Position(number))
            model.jump(where, number)
        elif what == "end":
            real.seek_to(where, LATEST)
            model.jump(where, None)
        elif what == "ask":
            waiting = real.waiting(PositionStep.COMMITTED) | real.waiting(PositionStep.RESET)
            if where in waiting:
                self.asked[where] = (waiting[where], model.changes[where])
        elif what == "nothing":
            assert real.uncommitted([where]) == []
        elif what == "fetch" and (version := real.fetchable([]).get(where)) is not None:
            self.fetched[where] = (version, model.changes[where])
        elif what == "range" and where in self.fetched:
            version, changes = self.fetched.pop(where)
            assert real.out_of_range(where, version)
            if changes == model.changes[where]:
                model.jump(where, None)

    def _see_topic(self, where: TopicPartition, now: UUID) -> None:
        """The topic is what it was; or is made anew; or a broker does not know that yet."""
        left = self.model.left.pop(where, now) if where not in self.model.topics else now
        if left != now:
            self.model.former.add(left)
        before = self.model.topics.setdefault(where, now)
        anew = now != before and now not in self.model.former
        assert self.real.saw_topic(where, now) == anew
        if anew:
            self.real.begin_anew(where, now)
            self.model.jump(where, None)
            self.model.former.add(before)
            self.model.topics[where] = now
        assert self.real.topic_id(where) == self.model.topics[where]
        assert all(map(self.real.was_before, self.model.former))

    def check(self) -> None:
        self.real.check_invariants()
        assert self.real.assigned == self.model.positions.keys()
        for where, offset in self.model.positions.items():
            at = self.real.position(where)
            assert (None if at is None else at.offset) == offset


@given(what=steps)
def test_positions_follow_the_last_word(what: list[tuple[str, TopicPartition, int]]) -> None:
    world = World()
    for one in what:
        world.do(*one)


def test_a_position_of_an_older_epoch_is_checked_once() -> None:
    [where, *_] = WHERES
    positions = Positions(EARLIEST)
    positions.add([where], from_group=True)
    [version] = positions.waiting(PositionStep.COMMITTED).values()
    positions.found(where, version, Position(7, 3))
    positions.saw_leader(where, 3)
    assert not positions.waiting(PositionStep.CHECK)
    positions.saw_leader(where, 4)
    [version] = positions.waiting(PositionStep.CHECK).values()
    assert not positions.fetchable([])
    positions.checked(where, version, 4)
    positions.saw_leader(where, 4)
    assert positions.fetchable([])
    positions.saw_leader(where, 5)
    [version] = positions.waiting(PositionStep.CHECK).values()
    positions.found(where, version, Position(5, 3))  # the log was cut short
    assert positions.position(where) == Position(5, 3)


def test_each_partition_gets_its_turn() -> None:
    positions = Positions(EARLIEST)
    positions.add(WHERES, from_group=False)
    for where, version in positions.waiting(PositionStep.RESET).items():
        positions.found(where, version, Position(0))
    versions = positions.fetchable([])
    assert list(versions) == WHERES
    positions.advance(WHERES[0], versions[WHERES[0]], Position(1))
    assert list(positions.fetchable([])) == [*WHERES[1:], WHERES[0]]
    positions.pause([WHERES[1]], True)
    assert list(positions.fetchable([WHERES[0]])) == [WHERES[2]]


def test_without_a_policy_a_partition_is_stuck() -> None:
    positions = Positions(None)
    positions.add(WHERES[:1], from_group=True)
    assert positions.uncommitted(WHERES[:1]) == WHERES[:1]
    positions.seek(WHERES[0], Position(3))
    [version] = positions.fetchable([]).values()
    assert not positions.out_of_range(WHERES[0], version)


def test_a_topic_that_is_made_anew_is_read_from_its_first_record() -> None:
    """Unless the group has committed something there, or shall begin at a time."""
    where = WHERES[0]
    for policy, begins in ((EARLIEST, EARLIEST), (LATEST, EARLIEST), (1_700_000_000_000,) * 2):
        positions = Positions(policy)
        positions.add([where], from_group=True)
        positions.uncommitted([where])
        assert positions.reset_of(where) == policy
        positions.saw_topic(where, UUID(int=1))
        positions.begin_anew(where, UUID(int=2))
        positions.uncommitted([where])
        assert positions.reset_of(where) == begins
        for topic, again in ((UUID(int=2), policy), (UUID(int=3), begins)):
            positions.remove([where])
            positions.add([where], from_group=True)
            positions.saw_topic(where, topic)
            positions.uncommitted([where])
            assert positions.reset_of(where) == again
