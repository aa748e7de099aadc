"""Lanes of keys beside a naive model that walks over all records for each answer."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.key_lanes import Entry, KeyLanes
from sharegroup.model.ids import TopicPartition

WHERES = [TopicPartition("t", number) for number in range(2)]
STEPS = ["add", "add", "add", "take", "take", "done", "rest", "again", "close", "forget"]
steps = st.lists(
    st.tuples(
        st.sampled_from(STEPS),
        st.integers(0, 1),
        st.sampled_from([None, b"a", b"b", b"c"]),
        st.integers(0, 30),
    ),
    max_size=80,
)


@dataclass
class Record:
    where: TopicPartition
    offset: int
    key: bytes | None
    state: str = "waiting"


class World:
    def __init__(self) -> None:
        self.real: KeyLanes[Record] = KeyLanes()
        self.model: list[Record] = []
        self.held: list[Entry[Record]] = []
        self.ends = dict.fromkeys(WHERES, 0)
        self.closed: set[TopicPartition] = set()
        self.firsts: dict[TopicPartition, int] = {}

    def blocked(self, one: Record) -> bool:
        """An earlier record of its key is not done."""
        return one.key is not None and any(
            other.where == one.where and other.key == one.key and other.offset < one.offset
            for other in self.model
        )

    def pick(self, state: str, number: int) -> Entry[Record] | None:
        mine = [one for one in self.held if one.item.state == state]
        return mine[number % len(mine)] if mine else None

    def step(self, name: str, where: TopicPartition, key: bytes | None, number: int) -> None:
        if name == "add" and where not in self.closed:
            offset = self.ends[where] + number % 3
            self.ends[where] = offset + 1
            self.firsts.setdefault(where, offset)
            record = Record(where, offset, key)
            self.real.add(where, offset, key, record)
            self.model.append(record)
        elif name == "take":
            self.take()
        elif name in ("done", "rest"):
            self.end(name, self.pick("running", number))
        elif name == "again":
            entry = self.pick("resting", number)
            if entry is not None:
                self.real.again(entry)
                self.real.again(entry)  # a second time changes nothing
                entry.item.state = "waiting"
                self.held.remove(entry)
        elif name == "close" and where in self.firsts:
            self.closed.add(where)
            self.real.close([where])
            self.model = [m for m in self.model if m.where != where or m.state == "running"]
        elif name == "forget":
            self.closed.discard(where)
            self.firsts.pop(where, None)
            self.real.forget([where])
            self.model = [one for one in self.model if one.where != where]

    def take(self) -> None:
        free = [m for m in self.model if m.state == "waiting" and not self.blocked(m)]
        entry = self.real.take()
        assert (entry is None) == (not free)
        if entry is not None:
            assert entry.item in free
            entry.item.state = "running"
            self.held.append(entry)

    def end(self, name: str, entry: Entry[Record] | None) -> None:
        if entry is None:
            return
        known = any(one is entry.item for one in self.model)
        goes_on = known and not (name == "rest" and entry.item.where in self.closed)
        assert getattr(self.real, name)(entry) == goes_on
        entry.item.state = "resting" if name == "rest" else "done"
        if name == "done" or not goes_on:
            self.held.remove(entry)
        if name == "done" or (known and not goes_on):
            self.model = [one for one in self.model if one is not entry.item]

    def check(self) -> None:
        self.real.check_invariants()
        assert self.real.count == len(self.model)
        assert self.real.running == sum(one.state == "running" for one in self.model)
        stable = self.real.stable()
        for where in WHERES:
            mine = [one.offset for one in self.model if one.where == where]
            running = [m for m in self.model if m.where == where and m.state == "running"]
            assert self.real.running_of([where]) == len(running)
            if where not in self.closed:
                assert stable.get(where) == (min(mine) if mine else None)
            elif mine:
                assert stable[where] <= min(mine)


@given(steps)
def test_lanes_are_as_the_model(todo: list[tuple[str, int, bytes | None, int]]) -> None:
    world = World()
    for name, partition, key, number in todo:
        world.step(name, WHERES[partition], key, number)
        world.check()


def test_nothing_that_was_dropped_is_committed() -> None:
    lanes: KeyLanes[int] = KeyLanes()
    for offset, key in enumerate([b"a", b"b", b"a", b"c"]):
        lanes.add(WHERES[0], offset, key, offset)
    first, second = lanes.take(), lanes.take()
    assert first is not None
    assert second is not None
    lanes.done(second)
    assert lanes.stable() == {WHERES[0]: 0}
    assert lanes.ranges(WHERES[0]) == ((1, 1),)
    lanes.close([WHERES[0]])
    lanes.done(first)
    assert lanes.stable() == {WHERES[0]: 2}  # the second of key a was dropped


def test_offsets_ascend() -> None:
    lanes: KeyLanes[int] = KeyLanes()
    lanes.add(WHERES[0], 5, None, 0)
    with pytest.raises(ValueError, match="the offset 5 of t-0 comes too late"):
        lanes.add(WHERES[0], 5, None, 0)
