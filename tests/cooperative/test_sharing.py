"""Which members share which partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.cooperative.sharing import in_ranges, round_robin, sticky

FIVE = ["c1", "c2", "c3", "c4", "c5"]


def test_the_draft_s_first_example() -> None:
    assert round_robin([1, 2, 3], FIVE) == {1: ["c1", "c4"], 2: ["c2", "c5"], 3: ["c3"]}


def test_the_draft_s_second_example() -> None:
    assert in_ranges([0, 1], FIVE) == {0: ["c1", "c2", "c3"], 1: ["c4", "c5"]}
    assert in_ranges([0, 1, 2], FIVE) == {0: ["c1", "c2"], 1: ["c3", "c4"], 2: ["c5"]}


def check(found: dict[int, list[str]], members: list[str]) -> None:
    assert sorted(name for them in found.values() for name in them) == sorted(members)
    counts = [len(them) for them in found.values()]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 6), st.lists(st.tuples(st.booleans(), st.integers(0, 99)), max_size=20))
def test_members_come_and_go(partitions: int, steps: list[tuple[bool, int]]) -> None:
    """One that joins moves nobody; one that leaves moves one other at most."""
    numbers = list(range(partitions))
    members = [f"m{at}" for at in range(partitions)]
    found = sticky(numbers, members, {})
    for number, (joins, which) in enumerate(steps):
        if joins or len(members) == partitions:
            now = [*members, f"n{number}"]
        else:
            now = [name for at, name in enumerate(members) if at != which % len(members)]
        after = sticky(numbers, now, found)
        check(after, now)
        homes = {name: at for at, them in found.items() for name in them}
        moved = [n for at, them in after.items() for n in them if homes.get(n, at) != at]
        assert len(moved) <= (0 if len(now) > len(members) else 1)
        members, found = now, after


def test_a_member_that_had_all_keeps_one() -> None:
    found = sticky([0, 1, 2], ["a", "b", "c", "d"], {0: ["a"], 1: ["a"], 2: ["a"]})
    check(found, ["a", "b", "c", "d"])
