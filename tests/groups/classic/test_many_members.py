"""Many members of a classic group come at once."""

from __future__ import annotations

from sharegroup.groups.classic.groups import ClassicGroups
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
)

REBALANCE_MS = 30_000


class Many:
    """A group whose first member is stable in generation 1, at 1 s."""

    def __init__(self) -> None:
        self.groups = ClassicGroups(Settings(size_max=100, initial_rebalance_delay_ms=0))
        self.now_ms = 1_000
        self.joined: dict[str, Joined] = {}
        self.tokens: dict[int, str] = {}
        self.join("m0")
        self.run_until(1_000)
        self.sync("m0")

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def done(self, effects: Effects) -> None:
        for token, result in effects.answers:
            if isinstance(result, Joined):
                self.joined[self.tokens[token]] = result
        if effects.records:
            self.done(self.groups.durable(effects.records, self.now))

    def token(self, name: str) -> int:
        token = len(self.tokens) + 1
        self.tokens[token] = name
        return token

    def join(self, name: str) -> None:
        known = self.joined.pop(name, None)
        request = Join(
            group_id="g",
            member_id="" if known is None else known.member_id,
            new_member_id=name,
            protocol_type="consumer",
            protocols=[Protocol("range", b"")],
            session_timeout_ms=45_000,
            rebalance_timeout_ms=REBALANCE_MS,
            id_required=False,
        )
        self.done(self.groups.join(request, self.token(name), self.now))

    def sync(self, name: str) -> None:
        generation = self.joined[name].generation
        request = Sync(group_id="g", member_id=name, generation=generation)
        self.done(self.groups.sync(request, self.token(name), self.now))

    def run_until(self, at_ms: int) -> None:
        while (due_ms := self.groups.next_deadline_ms()) is not None and due_ms <= at_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.done(self.groups.tick(self.now))
        self.now_ms = at_ms

    def come(self, first: int, end: int, every_ms: int) -> None:
        for number in range(first, end):
            self.run_until(self.now_ms + every_ms)
            self.join(f"m{number}")

    def generations(self) -> set[int]:
        return {joined.generation for joined in self.joined.values()}


def test_a_large_group_waits_until_no_more_new_members_come() -> None:
    many = Many()
    many.come(1, 20, every_ms=5)
    many.join("m0")
    many.come(20, 40, every_ms=20)
    assert not many.joined, "nobody is told a generation while new members come"
    many.run_until(many.now_ms + 40 * 5 - 1)
    assert not many.joined
    many.run_until(many.now_ms + 1)
    assert (len(many.joined), many.generations()) == (40, {2})


def test_a_small_group_does_not_wait() -> None:
    many = Many()
    many.come(1, 7, every_ms=5)
    many.join("m0")
    assert (len(many.joined), many.generations()) == (7, {2})


def test_a_rebalance_without_recent_new_members_does_not_wait() -> None:
    many = Many()
    many.come(1, 20, every_ms=5)
    many.run_until(many.now_ms + 2_000)
    many.join("m0")
    assert len(many.joined) == 20


def test_new_members_without_end_do_not_hold_a_rebalance_up() -> None:
    many = Many()
    many.come(1, 20, every_ms=1)
    many.join("m0")
    many.come(20, 40, every_ms=99)
    assert not many.joined
    many.come(40, 60, every_ms=99)
    assert many.joined
    assert many.generations() == {2}


def test_a_member_that_leaves_meanwhile_is_not_waited_for() -> None:
    many = Many()
    many.come(1, 20, every_ms=5)
    many.join("m0")
    left, effects = many.groups.leave("g", [LeavingMember("m3")], many.now)
    assert left[0].error is None
    assert [result for _, result in effects.answers if not isinstance(result, Refused)] == []
    many.run_until(many.now_ms + 19 * 5)
    assert len(many.joined) == 19


def test_who_does_not_come_is_removed_at_the_end_of_the_rebalance_timeout() -> None:
    many = Many()
    del many.joined["m0"]
    began_ms = many.now_ms
    many.come(1, 20, every_ms=5)
    many.run_until(began_ms + REBALANCE_MS + 4)
    assert not many.joined, "the first member has not joined again"
    many.run_until(began_ms + REBALANCE_MS + 5)
    assert sorted(many.joined) == sorted(f"m{number}" for number in range(1, 20))
