"""Turns beside a model that keeps one word for each offset."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sharegroup.cooperative.intervals import Intervals, normal
from sharegroup.model.errors import InvalidFetchSessionEpoch
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.turns import FIRST_TURN, TURN_RECORDS, PartitionTurns

LOCK_MS = 1_000
SETTINGS = DeliverySettings(lock_ms=LOCK_MS, delivery_count_limit=1 << 30, record_locks_max=200)
MEMBERS = ("a", "b", "c")
BATCH = 10
END = 400


def given(
    turns: PartitionTurns, member: str, number: int, now_ms: int = 0, *, end: int = END
) -> Intervals:
    """A turn over a log of batches of ten, every seventh of which is missing."""
    again = turns.begin(member, number, now_ms, SETTINGS)
    while not again:
        offset = turns.next_offset
        if offset >= end or not turns.has_room(SETTINGS):
            return ()
        read = [
            (base, base + BATCH - 1)
            for base in range(offset // BATCH * BATCH, min(end, offset + 50), BATCH)
            if base // BATCH % 7 != 3
        ]
        again = turns.give(
            member, number, read, fetch_offset=offset, now_ms=now_ms, settings=SETTINGS
        )
        if not again and turns.next_offset <= offset:
            return ()
    return again


def offsets(ranges: Intervals) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def test_a_turn_that_is_asked_for_again_gets_the_same_records() -> None:
    turns = PartitionTurns(0)
    first = given(turns, "a", 1, end=20)
    assert first == ((0, 19),)
    assert given(turns, "b", 1, end=30) == ((20, 29),)
    second = given(turns, "a", 2)
    assert offsets(second).isdisjoint(range(30))
    assert given(turns, "a", 2) == second


def test_a_turn_that_is_given_again_in_part_leaves_the_rest_to_others() -> None:
    turns = PartitionTurns(0)
    given(turns, "a", 1, end=10)
    second = given(turns, "a", 2, end=30)
    assert second == ((10, 29),)
    turns.give_less("a", ((10, 19),), 0, SETTINGS)
    assert given(turns, "b", 1, end=30) == ((20, 29),)
    assert given(turns, "a", 2, end=30) == ((10, 19),)


def test_a_member_that_begins_anew_gives_back_what_it_held() -> None:
    turns = PartitionTurns(0)
    held = given(turns, "a", 1, end=20)
    assert turns.commit("a", ((0, 4),), 0, SETTINGS)
    assert given(turns, "a", FIRST_TURN, end=20) == ((5, 19),)
    assert offsets(held) > set(range(5, 20))


@pytest.mark.parametrize("number", [0, 2, 3, -1])
def test_a_turn_that_is_not_the_members_is_refused(number: int) -> None:
    turns = PartitionTurns(0)
    given(turns, "b", 1)
    with pytest.raises(InvalidFetchSessionEpoch):
        given(turns, "a", number)


def test_who_has_left_holds_nothing() -> None:
    turns = PartitionTurns(0)
    held = given(turns, "a", 1)
    turns.keep({"b"}, 0, SETTINGS)
    assert given(turns, "b", 1) == held
    with pytest.raises(InvalidFetchSessionEpoch):
        given(turns, "a", 2)


def test_a_lock_ends_unless_its_member_commits() -> None:
    turns = PartitionTurns(0)
    held = given(turns, "a", 1, now_ms=0)
    assert turns.commit("a", (), LOCK_MS - 1, SETTINGS)
    turns.keep(MEMBERS, LOCK_MS, SETTINGS)
    assert offsets(given(turns, "b", 1, now_ms=LOCK_MS)).isdisjoint(offsets(held))
    turns.keep(MEMBERS, 2 * LOCK_MS - 1, SETTINGS)
    assert given(turns, "b", 2, now_ms=2 * LOCK_MS - 1) == held


def test_what_the_group_has_committed_is_not_given() -> None:
    assert given(PartitionTurns(3, ((5, 9), (15, 15))), "a", 1, end=20) == (
        (3, 4),
        (10, 14),
        (16, 19),
    )


def test_holes_are_told_until_they_are_committed() -> None:
    turns = PartitionTurns(0)
    assert given(turns, "a", 1, end=60) == ((0, 29), (40, 49))
    assert turns.holes == ((30, 39),)
    assert turns.commit("a", ((0, 29), (40, 49)), 0, SETTINGS)
    assert turns.holes == ((30, 39),)
    assert turns.commit("b", ((30, 39),), 0, SETTINGS)
    assert turns.holes == ()


def test_offsets_that_are_passed_over_are_a_hole() -> None:
    turns = PartitionTurns(0)
    turns.pass_over(0, 9)
    assert turns.holes == ((0, 9),)
    assert given(turns, "a", 1, end=20) == ((10, 19),)


def test_a_group_that_has_moved_back_begins_with_a_new_object() -> None:
    turns = PartitionTurns(10)
    assert turns.follow(20)
    assert not turns.follow(19)


def test_a_commit_of_what_was_never_given_is_noticed() -> None:
    turns = PartitionTurns(0)
    given(turns, "a", 1)
    assert not turns.commit("a", ((END, END + 1),), 0, SETTINGS)


def test_a_turn_has_about_so_many_records() -> None:
    turns = PartitionTurns(0)
    wide = DeliverySettings(lock_ms=1, delivery_count_limit=9, record_locks_max=1 << 30)
    turns.begin("a", 1, 0, wide)
    read = [(base, base + 299) for base in range(0, 3_000, 300)]
    found = turns.give("a", 1, read, fetch_offset=0, now_ms=0, settings=wide)
    assert found == ((0, 599),)
    assert TURN_RECORDS <= 600


class TurnsBesideModel(RuleBasedStateMachine):
    """The model: for each offset who holds it and until when, or that it is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = PartitionTurns(0)
        self.now_ms = 0
        self.done: set[int] = set()
        self.held: dict[int, tuple[str, int]] = {}
        self.numbers: dict[str, int] = {}
        self.members = set(MEMBERS)

    def stable(self) -> int:
        return next(at for at in range(END + 1) if at not in self.done)

    def expire(self) -> None:
        self.turns.keep(self.members, self.now_ms, SETTINGS)
        self.held = {
            at: (member, until)
            for at, (member, until) in self.held.items()
            if until > self.now_ms and member in self.members
        }
        self.numbers = {m: n for m, n in self.numbers.items() if m in self.members}

    @rule(member=st.sampled_from(MEMBERS), again=st.booleans(), anew=st.booleans())
    def fetch(self, member: str, again: bool, anew: bool) -> None:
        self.members.add(member)
        self.expire()
        assert self.turns.follow(self.stable())
        number = self.numbers.get(member, 0) + (not again)
        if anew or number < 1 or member not in self.numbers:
            number = FIRST_TURN
        mine = {at for at, (who, _) in self.held.items() if who == member}
        found = offsets(given(self.turns, member, number, self.now_ms))
        if number == FIRST_TURN:
            self.held = {at: by for at, by in self.held.items() if at not in mine}
        if found & mine and number != FIRST_TURN:  # an answer again
            assert number == self.numbers[member]
            assert found <= mine
            return
        assert found.isdisjoint(self.held), "two members hold a record"
        assert found.isdisjoint(self.done), "a committed record is given"
        assert all(at // BATCH % 7 != 3 for at in found), "a hole is given"
        self.held |= dict.fromkeys(found, (member, self.now_ms + LOCK_MS))
        if found:
            self.numbers[member] = number
        elif number == FIRST_TURN:
            self.numbers.pop(member, None)

    @rule(member=st.sampled_from(MEMBERS), part=st.integers(1, 5))
    def fetch_less(self, member: str, part: int) -> None:
        """The last turn again, with room for a part of it."""
        self.expire()
        if self.numbers.get(member, FIRST_TURN) == FIRST_TURN:
            return
        again = self.turns.begin(member, self.numbers[member], self.now_ms, SETTINGS)
        if not again:
            return
        mine = sorted(offsets(again))
        less = mine[: -(-len(mine) // part)]
        self.turns.give_less(member, normal((at, at) for at in less), self.now_ms, SETTINGS)
        for at in mine[len(less) :]:
            del self.held[at]
            assert self.turns.next_offset <= at, "nobody is given the rest"
        found = self.turns.begin(member, self.numbers[member], self.now_ms, SETTINGS)
        assert offsets(found) == set(less)

    @rule(member=st.sampled_from(MEMBERS), part=st.integers(1, 5), late=st.booleans())
    def commit(self, member: str, part: int, late: bool) -> None:
        """Some of what a member holds; ``late``: of what anybody was ever given."""
        mine = sorted(at for at, (who, _) in self.held.items() if who == member or late)
        some = set(mine[: -(-len(mine) // part)]) | offsets(self.turns.holes)
        assert self.turns.commit(member, normal((at, at) for at in some), self.now_ms, SETTINGS)
        self.done |= some
        self.held = {
            at: (who, self.now_ms + LOCK_MS if who == member else until)
            for at, (who, until) in self.held.items()
            if at not in some
        }

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        self.members.discard(member)
        self.expire()

    @rule(ms=st.integers(1, LOCK_MS))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.expire()

    @invariant()
    def holds(self) -> None:
        self.turns.check_invariants()
        stable, ranges = self.turns.done
        assert stable == self.stable()
        assert offsets(ranges) == {at for at in self.done if at >= stable}

    def teardown(self) -> None:
        """Whoever is left gets all that is not done, sooner or later."""
        self.members = {"z"}
        self.expire()
        for _ in range(END):
            self.fetch("z", again=False, anew=False)
            self.commit("z", 1, late=False)
            if self.stable() >= END - BATCH:
                break
        assert self.stable() >= END - BATCH


TestTurnsBesideModel = TurnsBesideModel.TestCase
