"""The assignors ``uniform`` and ``range``: each partition to one subscriber, evenly."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.groups.consumer.ranges import assign_ranges
from sharegroup.groups.consumer.uniform import assign_uniformly
from sharegroup.groups.records import Assignment

A, B, C = (UUID(int=number) for number in (1, 2, 3))
TOPICS = (A, B, C)
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("klmnop"), st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=1
)
SIZES = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7).map(range))


def loads(assignment: Mapping[str, Assignment]) -> dict[str, int]:
    return {member: sum(map(len, held.values())) for member, held in assignment.items()}


def check_complete(
    new: Mapping[str, Assignment],
    subscriptions: Mapping[str, frozenset[UUID]],
    sizes: Mapping[UUID, range],
) -> None:
    given_out = [(t, p) for held in new.values() for t, held_of in held.items() for p in held_of]
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    assert sorted(given_out) == sorted((t, p) for t in sizes if t in wanted for p in sizes[t])
    assert all(set(new[member]) <= subscriptions[member] for member in subscriptions)
    assert new.keys() == subscriptions.keys()


def most_even(subscriptions: Mapping[str, frozenset[UUID]], sizes: Mapping[UUID, range]) -> int:
    """The least sum of squared loads, found partition by partition over all splits of loads."""
    members = sorted(subscriptions)
    reachable = {tuple(0 for _ in members)}
    for topic, partitions in sizes.items():
        takers = [i for i, member in enumerate(members) if topic in subscriptions[member]]
        for _ in partitions if takers else ():
            reachable = {
                tuple(load + (i == taker) for i, load in enumerate(split))
                for split in reachable
                for taker in takers
            }
    return min(sum(load * load for load in split) for split in reachable)


@given(SUBSCRIPTIONS, SIZES, SUBSCRIPTIONS)
def test_uniform_is_complete_stable_and_sticky(
    before: dict[str, frozenset[UUID]], sizes: dict[UUID, range], after: dict[str, frozenset[UUID]]
) -> None:
    first = assign_uniformly(before, sizes, {})
    check_complete(first, before, sizes)
    assert assign_uniformly(before, sizes, first) == first, "what is even stays"
    second = assign_uniformly(after, sizes, first)
    check_complete(second, after, sizes)
    if len(set(after.values())) == 1:
        spread = loads(second).values()
        assert max(spread) - min(spread) <= 1


@given(
    st.dictionaries(
        st.sampled_from("klm"), st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=1
    ),
    st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3).map(range)),
)
def test_uniform_is_as_even_as_subscriptions_allow(
    subscriptions: dict[str, frozenset[UUID]], sizes: dict[UUID, range]
) -> None:
    new = assign_uniformly(subscriptions, sizes, {})
    assert sum(n * n for n in loads(new).values()) == most_even(subscriptions, sizes)


def test_uniform_moves_no_more_than_it_must() -> None:
    both = frozenset((A, B))
    sizes = {A: range(4), B: range(4)}
    first = assign_uniformly({"k": both, "l": both}, sizes, {})
    second = assign_uniformly({"k": both, "l": both, "m": both}, sizes, first)
    assert loads(second) == {"k": 3, "l": 3, "m": 2}
    for member in "kl":
        kept = {(t, p) for t, held in second[member].items() for p in held}
        assert kept <= {(t, p) for t, held in first[member].items() for p in held}


def test_uniform_moves_by_way_of_others() -> None:
    """``k`` can relieve itself only to ``l``, and ``l`` only to ``m``."""
    subscriptions = {"k": frozenset((A,)), "l": frozenset((A, B)), "m": frozenset((B,))}
    current = {"k": {A: (0, 1, 2)}, "l": {B: (0, 1)}, "m": {B: (2,)}}
    new = assign_uniformly(subscriptions, {A: range(3), B: range(3)}, current)
    assert loads(new) == {"k": 2, "l": 2, "m": 2}


@given(SUBSCRIPTIONS, SIZES)
def test_range_is_complete_and_contiguous(
    subscriptions: dict[str, frozenset[UUID]], sizes: dict[UUID, range]
) -> None:
    new = assign_ranges(subscriptions, sizes, {})
    check_complete(new, subscriptions, sizes)
    for held in new.values():
        for partitions in held.values():
            assert list(partitions) == list(range(partitions[0], partitions[-1] + 1))


def test_range_co_partitions_topics_and_orders_static_members_first() -> None:
    both = frozenset((A, B))
    sizes = {A: range(3), B: range(3)}
    for order in permutations("klm"):
        new = assign_ranges(dict.fromkeys(order, both), sizes, {"m": "i-1"})
        assert new == {
            "m": {A: (0,), B: (0,)},
            "k": {A: (1,), B: (1,)},
            "l": {A: (2,), B: (2,)},
        }


def test_nobody_and_nothing() -> None:
    assert assign_uniformly({}, {A: range(1)}, {}) == {}
    assert assign_uniformly({"k": frozenset((A,))}, {}, {"k": {A: (0,)}}) == {"k": {}}
    assert assign_ranges({"k": frozenset()}, {A: range(1)}, {}) == {"k": {}}
