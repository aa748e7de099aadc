"""The assignors beside what every assignment must hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.assignors import ASSIGNORS, Assignment, Subscriber
from sharegroup.model.ids import TopicPartition

TOPICS = ("a", "b", "c")
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
topics = st.lists(st.sampled_from(TOPICS), unique=True).map(tuple)
groups = st.dictionaries(st.sampled_from("uvwxyz"), topics, min_size=1)


def subscribers(
    group: dict[str, tuple[str, ...]], before: Assignment | None = None, generation: int = 1
) -> dict[str, Subscriber]:
    return {
        member: Subscriber(wanted, tuple((before or {}).get(member, ())), generation)
        for member, wanted in group.items()
    }


def check(
    given_out: Assignment,
    group: dict[str, tuple[str, ...]],
    partitions: dict[str, int],
    *,
    all_given: bool = True,
) -> None:
    """Nobody has what it does not want, nothing is given twice, nothing wanted is left."""
    assert given_out.keys() == group.keys()
    flat = [where for wheres in given_out.values() for where in wheres]
    assert len(flat) == len(set(flat))
    for member, wheres in given_out.items():
        assert {where.topic for where in wheres} <= set(group[member])
    wanted = {topic for wanted in group.values() for topic in wanted}
    expected = {TopicPartition(t, n) for t in wanted for n in range(partitions.get(t, 0))}
    assert set(flat) == expected if all_given else set(flat) <= expected


def is_balanced(given_out: Assignment, group: dict[str, tuple[str, ...]]) -> bool:
    """No member could give one partition to somebody who has at least two fewer."""
    return not any(
        where.topic in group[other] and len(given_out[other]) + 2 <= len(given_out[member])
        for member, wheres in given_out.items()
        for where in wheres
        for other in group
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups, partitions=counts)
def test_every_partition_goes_to_one_member_that_wants_it(
    name: str, group: dict[str, tuple[str, ...]], partitions: dict[str, int]
) -> None:
    check(ASSIGNORS[name].assign(subscribers(group), partitions), group, partitions)


@given(group=groups, partitions=counts, later=groups, grown=counts)
def test_sticky_is_balanced_and_keeps_what_may_stay(
    group: dict[str, tuple[str, ...]],
    partitions: dict[str, int],
    later: dict[str, tuple[str, ...]],
    grown: dict[str, int],
) -> None:
    assign = ASSIGNORS["sticky"].assign
    before = assign(subscribers(group), partitions)
    assert is_balanced(before, group)
    assert assign(subscribers(group, before), partitions) == before
    after = assign(subscribers(later, before), grown)
    check(after, later, grown)
    assert is_balanced(after, later)


@given(count=st.integers(1, 6), more=st.integers(1, 3), size=st.integers(0, 30))
def test_sticky_moves_no_more_than_it_must(count: int, more: int, size: int) -> None:
    members = [f"m{n}" for n in range(count)]
    assign = ASSIGNORS["sticky"].assign
    before = assign(subscribers(dict.fromkeys(members, ("a",))), {"a": size})
    joined = dict.fromkeys([*members, *(f"n{n}" for n in range(more))], ("a",))
    after = assign(subscribers(joined, before), {"a": size})
    for member in members:
        assert set(after[member]) <= set(before[member]) or len(before[member]) < len(after[member])
    moved = sum(len(set(after[m]) - set(before.get(m, ()))) for m in joined)
    assert moved == sum(len(after[m]) for m in joined if m not in before)


@given(group=groups, partitions=counts, later=groups, grown=counts)
def test_cooperative_gives_nothing_that_another_member_still_has(
    group: dict[str, tuple[str, ...]],
    partitions: dict[str, int],
    later: dict[str, tuple[str, ...]],
    grown: dict[str, int],
) -> None:
    assign = ASSIGNORS["cooperative-sticky"].assign
    owned = assign(subscribers(group), partitions)
    for generation in range(2, 8):
        members = subscribers(later, owned, generation)
        given_out = assign(members, grown)
        check(given_out, later, grown, all_given=False)
        for member, wheres in given_out.items():
            for other, theirs in owned.items():
                assert other == member or other not in later or not set(theirs) & set(wheres)
        settled = given_out == owned
        owned = given_out
        if settled:
            break
    check(owned, later, grown)
    assert is_balanced(owned, later)


def test_range_gives_runs_and_round_robin_takes_turns() -> None:
    group = subscribers({"x": ("a",), "y": ("a",)})
    runs = ASSIGNORS["range"].assign(group, {"a": 3})
    assert [where.partition for where in runs["x"]] == [0, 1]
    turns = ASSIGNORS["roundrobin"].assign(group, {"a": 3})
    assert [where.partition for where in turns["x"]] == [0, 2]


def test_static_members_keep_their_order_under_new_member_ids() -> None:
    first = {"m1": Subscriber(("a",), instance_id="i"), "m2": Subscriber(("a",), instance_id="j")}
    again = {"z1": Subscriber(("a",), instance_id="i"), "m2": Subscriber(("a",), instance_id="j")}
    assign = ASSIGNORS["range"].assign
    assert assign(first, {"a": 4})["m1"] == assign(again, {"a": 4})["z1"]


def test_of_two_claims_the_newer_generation_had_it() -> None:
    where = (TopicPartition("a", 0), TopicPartition("a", 1))
    group = {"old": Subscriber(("a",), where, 3), "new": Subscriber(("a",), where[:1], 4)}
    given_out = ASSIGNORS["sticky"].assign(group, {"a": 2})
    assert given_out == {"old": [where[1]], "new": [where[0]]}
    assert ASSIGNORS["cooperative-sticky"].assign(group, {"a": 2})["old"] == [where[1]]
