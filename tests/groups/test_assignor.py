from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.groups.assignor import NAME, assign
from sharegroup.groups.records import Assignment

TOPICS = [UUID(int=number + 1) for number in range(4)]


def sizes(target: dict[str, Assignment]) -> list[int]:
    return sorted((sum(map(len, a.values())) for a in target.values()), reverse=True)


def holders(target: dict[str, Assignment]) -> Counter[tuple[UUID, int]]:
    return Counter((t, p) for a in target.values() for t, ps in a.items() for p in ps)


def moves(old: dict[str, Assignment], new: dict[str, Assignment]) -> int:
    def flat(a: dict[str, Assignment]) -> set[tuple[str, UUID, int]]:
        return {(m, t, p) for m, held in a.items() for t, ps in held.items() for p in ps}

    return len(flat(new) - flat(old))


def members(count: int) -> dict[str, frozenset[UUID]]:
    return {f"m{number}": frozenset(TOPICS[:1]) for number in range(count)}


@pytest.mark.parametrize(
    ("member_count", "partition_count", "wanted"),
    [
        (3, 2, [2, 1, 1]),
        (2, 3, [2, 1]),
        (5, 3, [2, 1, 1, 1, 1]),
        (4, 2, [1, 1, 1, 1]),
        (1, 4, [4]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_wanted_counts_of_the_specification(
    member_count: int, partition_count: int, wanted: list[int]
) -> None:
    target = assign(members(member_count), {TOPICS[0]: range(partition_count)}, {})
    assert sizes(target) == wanted
    sharing = -(-member_count // partition_count)
    assert set(holders(target).values()) == {sharing}


def test_no_members_and_no_partitions() -> None:
    assert assign({}, {TOPICS[0]: (0,)}, {}) == {}
    assert assign(members(2), {}, {}) == {"m0": {}, "m1": {}}


def test_partitions_that_are_no_longer_assignable_or_subscribed_are_dropped() -> None:
    current: dict[str, Assignment] = {"m0": {TOPICS[0]: (0, 9), TOPICS[1]: (0,)}}
    target = assign(members(1), {TOPICS[0]: (0, 1), TOPICS[1]: (0,)}, current)
    assert target == {"m0": {TOPICS[0]: (0, 1)}}


def test_a_partition_nobody_could_take_is_traded() -> None:
    # m0 and m1 share partition 0; the walk would leave partition 1 with one holder and m0 unfilled.
    current: dict[str, Assignment] = {"m0": {TOPICS[0]: (0,)}, "m1": {TOPICS[0]: (0,)}}
    target = assign(members(3), {TOPICS[0]: (0, 1)}, current)
    assert set(holders(target).values()) == {2}


def test_a_joiner_takes_only_its_own_share() -> None:
    before = assign(members(3), {TOPICS[0]: range(12)}, {})
    after = assign(members(4), {TOPICS[0]: range(12)}, before)
    assert sizes(after) == [3, 3, 3, 3]
    assert moves(before, after) == 3


def test_a_leavers_share_is_all_that_moves() -> None:
    before = assign(members(4), {TOPICS[0]: range(12)}, {})
    after = assign(members(3), {TOPICS[0]: range(12)}, before)
    assert moves(before, after) == 3


def test_mixed_subscriptions_are_shared_out_per_topic() -> None:
    both, one = frozenset(TOPICS[:2]), frozenset(TOPICS[:1])
    target = assign({"a": both, "b": one}, {TOPICS[0]: (0, 1), TOPICS[1]: (0, 1)}, {})
    assert sum(map(len, target["a"].values())) == 3
    assert target["a"][TOPICS[1]] == (0, 1)
    assert list(target["b"]) == [TOPICS[0]]


T1, T2, T3, T4 = TOPICS
THREE = {"a": frozenset((T1, T2)), "b": frozenset((T3,)), "c": frozenset((T2, T3))}
"""Three members with three subscriptions, as in Kafka's SimpleAssignorTest."""


def test_the_name() -> None:
    assert NAME == "simple"


def test_members_without_a_subscription_have_nothing() -> None:
    assert assign({"a": frozenset(), "b": frozenset()}, {T1: (0, 1)}, {}) == {"a": {}, "b": {}}


def test_subscribed_topics_without_assignable_partitions_are_skipped() -> None:
    target = assign({"a": frozenset((T1, T2))}, {T1: (0,)}, {})
    assert target == {"a": {T1: (0,)}}


@pytest.mark.parametrize(
    ("assignable", "wanted"),
    [
        ({T1: (0, 1, 2), T3: (0, 1)}, [3, 2]),
        ({T1: (0, 1, 2)}, [2, 1]),
        ({T1: (0, 2), T3: (1,)}, [2, 1]),
    ],
)
def test_two_members_of_two_topics(
    assignable: dict[UUID, tuple[int, ...]], wanted: list[int]
) -> None:
    """All partitions, or only those that are initialised."""
    both = frozenset((T1, T3))
    target = assign({"a": both, "b": both}, assignable, {})
    assert holders(target) == {(t, p): 1 for t, ps in assignable.items() for p in ps}
    assert sizes(target) == wanted


@pytest.mark.parametrize(
    "assignable",
    [
        {T1: (0, 1, 2), T2: (0, 1, 2), T3: (0, 1)},
        {T1: (0, 1), T2: (0, 2), T3: (1,)},
    ],
)
def test_three_members_with_three_subscriptions(assignable: dict[UUID, tuple[int, ...]]) -> None:
    target = assign(THREE, assignable, {})
    assert set(holders(target)) == {(t, p) for t, ps in assignable.items() for p in ps}
    assert target["a"][T1] == assignable[T1]
    assert target["b"].keys() == {T3}
    assert T1 not in target["c"]


def test_a_topic_that_is_not_initialised_leaves_its_only_subscriber_empty() -> None:
    target = assign(THREE, {T1: (0, 1, 2), T2: (0, 1, 2)}, {})
    assert target["a"] == {T1: (0, 1, 2), T2: (0, 2)}
    assert (target["b"], target["c"]) == ({}, {T2: (1,)})


def test_a_member_without_topics_among_others() -> None:
    target = assign({"a": frozenset((T1, T2)), "b": frozenset()}, {T1: (0, 1, 2), T2: (0, 1)}, {})
    assert target == {"a": {T1: (0, 1, 2), T2: (0, 1)}, "b": {}}


def test_changed_subscriptions_keep_what_they_can() -> None:
    current: dict[str, Assignment] = {
        "a": {T1: (0, 1, 2), T2: (0, 2)},
        "b": {T3: (0, 1)},
        "c": {T2: (1,)},
    }
    subscriptions = {"a": frozenset((T1, T2, T3)), "b": frozenset((T3, T4))}
    assignable = {T1: (0, 1, 2), T2: (0, 1, 2), T3: (0, 1), T4: (0,)}
    target = assign(subscriptions, assignable, current)
    assert set(holders(target)) == {(t, p) for t, ps in assignable.items() for p in ps}
    assert (target["a"][T1], target["a"][T2]) == ((0, 1, 2), (0, 1, 2))
    assert target["b"][T4] == (0,)
    assert len(target["b"][T3]) == 1, "shared with a, which is new to it"


KINDS = [frozenset((T1, T2, T3)), frozenset((T2,)), frozenset((T3,)), frozenset((T1, T2))]
SPREAD = {T1: tuple(range(12)), T2: tuple(range(8)), T3: tuple(range(4))}


@pytest.mark.parametrize("kinds", [KINDS[:1], KINDS], ids=["alike", "mixed"])
@pytest.mark.parametrize("counts", [range(1, 31), range(30, 0, -1)], ids=["more", "fewer"])
def test_members_come_or_go_one_by_one(kinds: list[frozenset[UUID]], counts: range) -> None:
    target: dict[str, Assignment] = {}
    for count in counts:
        subscriptions = {f"m{number:02}": kinds[number % len(kinds)] for number in range(count)}
        before, target = target, assign(subscriptions, SPREAD, target)
        held = holders(target)
        assert set(held) == {(topic, p) for topic, ps in SPREAD.items() for p in ps}
        if len(kinds) == 1 and count != counts[0]:
            assert sizes(target)[0] - sizes(target)[-1] <= 1
            assert set(held.values()) == {-(-count // 24)}
            if count <= 24 and count - 1:  # each partition has one holder, before and after
                assert moves(before, target) <= -(-24 // min(count, len(before)))


SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(9)]),
    st.frozensets(st.sampled_from(TOPICS), max_size=4),
    max_size=9,
)
ASSIGNABLE = st.dictionaries(
    st.sampled_from(TOPICS), st.integers(1, 7).map(lambda count: tuple(range(count))), max_size=4
)
CURRENT = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(9)]),
    st.dictionaries(
        st.sampled_from(TOPICS),
        st.frozensets(st.integers(0, 7), min_size=1).map(lambda ps: tuple(sorted(ps))),
    ),
)


@given(SUBSCRIPTIONS, ASSIGNABLE, CURRENT)
def test_every_partition_has_its_holders_and_members_are_even(
    subscriptions: dict[str, frozenset[UUID]],
    assignable: dict[UUID, tuple[int, ...]],
    current: dict[str, Assignment],
) -> None:
    target = assign(subscriptions, assignable, current)
    assert target.keys() == subscriptions.keys()
    assert all(set(a) <= subscriptions[m] & assignable.keys() for m, a in target.items())
    assert all(list(a) == sorted(a) and all(a.values()) for a in target.values())
    held = holders(target)
    alike = len(set(subscriptions.values())) <= 1
    classes = [list(assignable)] if alike else [[topic] for topic in assignable]
    for topics in classes:
        interested = [m for m, wanted in subscriptions.items() if wanted & set(topics)]
        shared = [
            (t, p)
            for t in topics
            for p in assignable[t]
            if any(t in subscriptions[m] for m in interested)
        ]
        if not interested or not shared:
            continue
        sharing = -(-len(interested) // len(shared))
        assert {held[partition] for partition in shared} == {sharing}
        counts = [sum(len(target[m].get(t, ())) for t in topics) for m in interested]
        assert max(counts) - min(counts) <= 1


@given(SUBSCRIPTIONS, ASSIGNABLE, CURRENT)
def test_assigning_again_moves_nothing_and_order_of_input_does_not_matter(
    subscriptions: dict[str, frozenset[UUID]],
    assignable: dict[UUID, tuple[int, ...]],
    current: dict[str, Assignment],
) -> None:
    target = assign(subscriptions, assignable, current)
    assert assign(subscriptions, assignable, target) == target
    turned = dict(reversed(subscriptions.items()))
    assert assign(turned, dict(reversed(assignable.items())), current) == target
