"""The map of owners is balanced, sticky, and says when an owner is another."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.fleet.assignment import Owned, assign, newest

PARTITIONS = st.integers(1, 40)
NODES = st.sets(st.integers(0, 9), min_size=1, max_size=8)
STEPS = st.lists(st.tuples(NODES, st.sets(st.integers(0, 9), max_size=3)), min_size=1, max_size=8)


@given(PARTITIONS, STEPS)
def test_each_map_is_balanced_and_changes_no_more_than_it_must(
    partitions: int, steps: list[tuple[set[int], set[int]]]
) -> None:
    before: dict[int, Owned] = {}
    for epoch, (nodes, draining) in enumerate(steps):
        after = assign(before, partitions, nodes, draining, epoch)
        staying = (nodes - draining) or nodes
        assert list(after) == list(range(partitions))
        counts = Counter(owned.node_id for owned in after.values())
        assert set(counts) <= staying
        sizes = [counts[node] for node in staying]
        assert max(sizes) - min(sizes) <= 1
        held = Counter(owned.node_id for owned in before.values())
        kept = sum(after[p] == owned for p, owned in before.items())
        assert kept == sum(min(held[node], counts[node]) for node in staying)
        for partition, owned in after.items():
            known = before.get(partition)
            if known is not None and known.node_id == owned.node_id:
                assert owned == known
            else:
                assert owned.epoch == epoch
        before = after


@given(PARTITIONS, NODES)
def test_the_same_nodes_get_the_same_map(partitions: int, nodes: set[int]) -> None:
    first = assign({}, partitions, nodes)
    assert assign(first, partitions, nodes) == first


def test_a_map_grows_with_its_partitions() -> None:
    first = assign({}, 4, {1, 2})
    grown = assign(first, 6, {1, 2}, epoch=7)
    assert all(grown[partition] == owned for partition, owned in first.items())


def test_the_latest_owner_is_the_one_of_the_highest_epoch() -> None:
    one = {0: Owned(1, 3), 1: Owned(1, 0)}
    other = {0: Owned(2, 4), 2: Owned(2, 0)}
    assert newest([one, other, {}]) == {0: Owned(2, 4), 1: Owned(1, 0), 2: Owned(2, 0)}
