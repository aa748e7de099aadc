"""The hash space of a partition, split between its members."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.cooperative.hash_split import HASH_MAX, WHOLE, split
from sharegroup.cooperative.intervals import Intervals, common, minus, normal, size

SPACE = HASH_MAX + 1
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 100)), min_size=1, max_size=25)


def check(parts: dict[str, Intervals]) -> None:
    """Disjoint, complete, equal."""
    assert normal(each for one in parts.values() for each in one) == WHOLE
    sizes = [size(one) for one in parts.values()]
    assert sum(sizes) == SPACE
    assert max(sizes) - min(sizes) <= 1


def moved(before: dict[str, Intervals], after: dict[str, Intervals]) -> int:
    """How many hashes have another owner than before."""
    return sum(size(minus(parts, before.get(member, ()))) for member, parts in after.items())


def test_two_members_have_a_half_each() -> None:
    assert split(["a"]) == {"a": WHOLE}
    assert split(["a", "b"]) == {"a": ((0, HASH_MAX // 2),), "b": ((HASH_MAX // 2 + 1, HASH_MAX),)}
    assert split([]) == {}


def test_who_stays_keeps_its_ranges() -> None:
    two = split(["a", "b"])
    three = split(["a", "b", "c"], two)
    assert all(not minus(three[name], two[name]) for name in "ab")
    assert split(["a", "b", "c"], three) == three


@given(STEPS)
def test_members_come_and_go(steps: list[tuple[bool, int]]) -> None:
    """One that joins n moves 1/(n+1) of the space, one that leaves n+1 moves 1/(n+1)."""
    members = ["first"]
    parts = split(members)
    for number, (joins, which) in enumerate(steps):
        if joins or len(members) == 1:
            now = [*members, f"m{number}"]
        else:
            now = [name for at, name in enumerate(members) if at != which % len(members)]
        after = split(now, parts)
        check(after)
        most = max(len(members), len(now))
        assert moved(parts, after) <= SPACE // most + most
        assert sum(map(len, after.values())) <= 4 * len(steps) + 4
        members, parts = now, after


def test_what_members_say_they_had_may_overlap() -> None:
    """Nothing that a member claims makes the new parts overlap."""
    after = split(["a", "b"], {"a": WHOLE, "b": WHOLE, "gone": WHOLE})
    assert not common(after["a"], after["b"])
    check(after)
